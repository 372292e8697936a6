package lease_test

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// stuckLog is a logger that does not return before the test frees it.
type stuckLog struct {
	called, freed chan struct{}
	first, last   sync.Once
}

// newStuckLog returns a logger that is freed when the test ends.
func newStuckLog(t testing.TB) *stuckLog {
	b := &stuckLog{called: make(chan struct{}), freed: make(chan struct{})}
	t.Cleanup(b.free)
	return b
}

// Write waits until the log is freed.
func (b *stuckLog) Write(p []byte) (int, error) {
	b.first.Do(func() { close(b.called) })
	<-b.freed
	return len(p), nil
}

// option returns the option that sets the logger.
func (b *stuckLog) option() relock.ClientOption {
	return relock.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

// await waits for the first call.
func (b *stuckLog) await(t testing.TB) {
	t.Helper()
	_, ok := testkit.Await(b.called, testkit.Patience)
	require.True(t, ok, "nothing was logged")
}

// free lets all calls return.
func (b *stuckLog) free() { b.last.Do(func() { close(b.freed) }) }
