package locktest

import (
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
