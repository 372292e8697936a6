package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/testkit"
)

// Timed is a call, and when it has ended.
type Timed struct {
	testing.TB
	result <-chan error
	at     time.Time
}

// End returns what came of it, and sees that it ended as long after an alarm as
// that was set to at most.
func (c *Timed) End(half *Alarm) error {
	c.Helper()
	err := testkit.ResultWithin(c, c.result, 5*time.Second)
	require.Less(c, c.at.Sub(half.Ring()), CloseLimit/2)
	return err
}
