package locktest

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// LogBuffer collects what a client logs.
type LogBuffer struct{ testkit.Log }

// Option returns the option that logs to b.
func (b *LogBuffer) Option() relock.ClientOption {
	return relock.WithLogger(b.Logger())
}

// Debug returns the option that logs all levels to b.
func (b *LogBuffer) Debug() relock.ClientOption {
	return relock.WithLogger(b.DebugLogger())
}

// StuckLog is a logger that does not return before the test frees it.
type StuckLog struct {
	called, freed chan struct{}
	first, last   sync.Once
}

// NewStuckLog returns a logger that is freed when the test ends.
func NewStuckLog(t testing.TB) *StuckLog {
	b := &StuckLog{called: make(chan struct{}), freed: make(chan struct{})}
	t.Cleanup(b.Free)
	return b
}

// Write waits until the log is freed.
func (b *StuckLog) Write(p []byte) (int, error) {
	b.first.Do(func() { close(b.called) })
	<-b.freed
	return len(p), nil
}

// Option returns the option that sets the logger.
func (b *StuckLog) Option() relock.ClientOption {
	return relock.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

// Await waits for the first call.
func (b *StuckLog) Await(t testing.TB) {
	t.Helper()
	_, ok := testkit.Await(b.called, testkit.Patience)
	require.True(t, ok, "nothing was logged")
}

// Free lets all calls return.
func (b *StuckLog) Free() { b.last.Do(func() { close(b.freed) }) }
