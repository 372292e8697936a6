package relocktest

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest/conform"
)

// The Locker in memory keeps the promises that every backend keeps.
func TestConformance(t *testing.T) {
	t.Parallel()
	for mode, opts := range map[string][]relock.LockOption{
		"unfair": nil, "fair": {relock.WithFair()}, "fenced": {relock.WithFencing()},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := NewLocker(append(opts, relock.WithWatchdog(conformLease))...)
			conform.Run(t, conform.Backend{
				New: func(*testing.T) relock.Locker { return l }, Lease: conformLease,
				Fair: true, Fenced: mode == "fenced",
				Break:   func(_ *testing.T, key string) { l.Lose(key) },
				Waiting: func(_ *testing.T, key string) int { return l.Waiting(key) },
				Left:    func(_ *testing.T, key string) []string { return l.left(key) },
			})
		})
	}
}

const conformLease = 250 * time.Millisecond

// left returns the key if the Locker still has a state for it.
func (l *Locker) left(key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks[key] == nil {
		return nil
	}
	return []string{key}
}
