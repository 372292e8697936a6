package proof

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Dials that are refused take no place in a pool with a limit. Once the server
// is back, the next call has a connection.
func TestRefusedCallsKeepNoPlace(t *testing.T) {
	t.Parallel()
	const places = 2
	for name, opts := range map[string][]relock.ClientOption{
		"wait mode": {relock.WithWaitMode()}, "no wait mode": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			c := locktest.NewTestClient(t, s, append(opts, relock.WithMaxActive(places), relock.WithDialTimeout(time.Second))...)
			s.Kill(t)
			for range 2 * places {
				err := relock.NewRedisLock("k", c).TryLock(t.Context())
				require.ErrorContains(t, err, "connect")
				require.True(t, relock.IsRetryableErr(err), err)
			}
			s.BootAndLoad(t)
			lock := relock.NewRedisLock("k", c)
			require.NoError(t, lock.TryLock(t.Context()))
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}
