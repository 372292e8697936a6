package relock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// Calls that the server refuses for want of room do not cost the client the
// idle connection that it has.
func TestRefusedCallsLeaveIdleConnections(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *redistest.Server{"unix": redistest.Start, "tcp": redistest.StartTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			c := newTestClient(t, s)
			warm(t, c, 1)
			full := fillUp(t, s)
			for range 5 {
				var calls []<-chan error
				for range 4 * crowd {
					calls = append(calls, async(t, func() error { return NewRedisLock("k", c).TryDo(t.Context(), nothing) }))
				}
				for _, call := range calls {
					if err := resultWithin(t, call, queuePatience); err != nil {
						require.True(t, IsRetryableErr(err), err)
					}
				}
				full.requireSame(t)
			}
		})
	}
}
