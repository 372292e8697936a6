package testkit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Log collects what is logged, a line for each event.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger returns the logger whose lines are collected.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// DebugLogger is Logger, and collects lines of all levels.
func (l *Log) DebugLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often a text is in the log.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }

// Lines returns how many lines of the log contain all of the texts.
func (l *Log) Lines(texts ...string) (n int) {
lines:
	for line := range strings.Lines(l.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		n++
	}
	return n
}

// RequireWarned waits until the log has a warning of each text, which the error
// must have, too.
func (l *Log) RequireWarned(t testing.TB, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.ErrorContains(t, err, text)
		Eventually(t, Patience, func() bool { return l.Lines("level=WARN", text) > 0 }, text)
	}
}
