package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// StaysHeld looks every few milliseconds, and leaves the machine to the other tests between: a hold that was lost stays lost.
func StaysHeld(t *testing.T, s *redistest.Server, c *relock.Client, h relock.Hold, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		require.NoError(t, h.Err())
		RequireHeld(t, s, c, h.Key())
	}
}
