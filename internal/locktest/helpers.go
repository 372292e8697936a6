package locktest

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// stuckLog is a logger that does not return before the test says so.
type stuckLog struct {
	called, freed chan struct{}
	first, last   sync.Once
}

// NewStuckLog returns a logger that is freed when the test ends.
func NewStuckLog(t testing.TB) *stuckLog {
	b := &stuckLog{called: make(chan struct{}), freed: make(chan struct{})}
	t.Cleanup(b.Free)
	return b
}

func (b *stuckLog) Write(p []byte) (int, error) {
	b.first.Do(func() { close(b.called) })
	<-b.freed
	return len(p), nil
}

func (b *stuckLog) Option() relock.ClientOption {
	return relock.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

// Await waits for the first call.
func (b *stuckLog) Await(t testing.TB) {
	t.Helper()
	select {
	case <-b.called:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "nothing was logged")
	}
}

func (b *stuckLog) Free() { b.last.Do(func() { close(b.freed) }) }
