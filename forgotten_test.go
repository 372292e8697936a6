package relock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A hold without a maximum that is older than 100 leases is logged once. It may
// be one whose Unlock was forgotten.
func TestForgottenHoldIsLogged(t *testing.T) {
	t.Parallel()
	const length = 30 * time.Second
	for name, tt := range map[string]struct {
		newLock func(c *Client, opts ...LockOption) anyLock
		opt     LockOption
		age     time.Duration
		lines   int
	}{
		"old":                     {func(c *Client, o ...LockOption) anyLock { return NewRedisLock("k", c, o...) }, WithLabel(""), 101 * length, 1},
		"old, reentrant":          {func(c *Client, o ...LockOption) anyLock { return NewReentrantLock("k", c, o...) }, WithLabel(""), 101 * length, 1},
		"old, several":            {func(c *Client, o ...LockOption) anyLock { return NewMultiLock([]string{"a", "b"}, c, o...) }, WithLabel(""), 101 * length, 1},
		"younger":                 {func(c *Client, o ...LockOption) anyLock { return NewRedisLock("k", c, o...) }, WithLabel(""), 99 * length, 0},
		"with a maximum":          {func(c *Client, o ...LockOption) anyLock { return NewRedisLock("k", c, o...) }, WithMaxHold(time.Hour), 101 * length, 0},
		"several, with a maximum": {func(c *Client, o ...LockOption) anyLock { return NewMultiLock([]string{"a", "b"}, c, o...) }, WithMaxHold(time.Hour), 101 * length, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logBuffer
			c := newTestClient(t, redistest.Shared(t), log.option(), WithWatchdog(length))
			h, err := tt.newLock(c, tt.opt).Acquire(t.Context())
			require.NoError(t, err)
			leases := []*lease.Lease{leaseOf(h)}
			if h.Key() != "k" {
				leases = nil
				for _, one := range h.(hold).level.Members() {
					leases = append(leases, one.Lease())
				}
			}
			for range 3 {
				before := c.Stats().Renewals
				for _, l := range leases {
					l.Set(func(s *lease.State) { s.Granted = time.Now().Add(-tt.age) })
					l.RenewNow()
				}
				testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Renewals >= before+int64(len(leases)) }, "renewed")
			}
			require.NoError(t, h.Unlock(t.Context()))
			require.Equal(t, tt.lines, strings.Count(log.String(), "held for very long without WithMaxHold"), log.String())
			if tt.lines > 0 {
				require.Contains(t, log.String(), "held=50m30s")
			}
		})
	}
}
