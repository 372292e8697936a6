package locktest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/testkit"
)

// LogBuffer collects what a client logs.
type LogBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Option returns the option that logs to b.
func (b *LogBuffer) Option() relock.ClientOption {
	return relock.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

// Count returns how often a text is in the log.
func (b *LogBuffer) Count(text string) int { return strings.Count(b.String(), text) }

// Lines returns how many lines of the log contain all of the texts.
func (b *LogBuffer) Lines(texts ...string) (n int) {
lines:
	for line := range strings.Lines(b.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		n++
	}
	return n
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
