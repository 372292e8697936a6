package locktest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"

	"github.com/relock-go/relock"
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
