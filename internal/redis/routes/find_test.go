package routes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The context of a call of the topology ends with its parent, with the router,
// after its limit, and when the call has ended.
func TestLimitsOfTheTopology(t *testing.T) {
	for name, tt := range map[string]struct {
		limit driver.Limits
		end   func(call, caller, router func())
		after time.Duration
		err   error
	}{
		"caller":       {driver.Limits{}, func(_, caller, _ func()) { caller() }, 0, context.Canceled},
		"router":       {driver.Limits{}, func(_, _, router func()) { router() }, 0, context.Canceled},
		"call":         {driver.Limits{}, func(call, _, _ func()) { call() }, 0, context.Canceled},
		"dial timeout": {driver.Limits{}, func(_, _, _ func()) {}, time.Minute, context.DeadlineExceeded},
		"limit":        {driver.Limits{Connect: time.Second}, func(_, _, _ func()) {}, time.Second, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				r := NewRouter(&driver.Config{DialTimeout: time.Minute}, &driver.Topology{})
				parent, cancel := context.WithCancel(t.Context())
				defer cancel()
				ctx, end := r.bound(parent, tt.limit)
				defer end()
				require.NoError(t, ctx.Err())
				began := time.Now()
				tt.end(end, cancel, r.end)
				<-ctx.Done()
				require.Equal(t, tt.after, time.Since(began))
				require.ErrorIs(t, ctx.Err(), tt.err)
			})
		})
	}
}

// For a server that is in memory, the topology is not asked, and a request
// costs no object. For another one it is.
func TestServerInMemory(t *testing.T) {
	asked := 0
	r := NewRouter(&driver.Config{DialTimeout: time.Minute, Password: new(string)}, &driver.Topology{
		Cached: func(key string) (string, bool) { return "127.0.0.1:1", key == "known" },
		Master: func(context.Context, string) (string, error) {
			asked++
			return "127.0.0.1:2", nil
		},
	})
	defer r.Close() //nolint:errcheck // it has no connection
	find := func(key string) string {
		n, err := r.find(t.Context(), driver.Limits{}, key, r.topology.Master)
		require.NoError(t, err)
		return n.address
	}
	require.Equal(t, "127.0.0.1:1", find("known"))
	require.Zero(t, asked)
	require.Equal(t, "127.0.0.1:2", find("unknown"))
	require.Equal(t, 1, asked)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = r.find(t.Context(), driver.Limits{}, "known", nil)
	}))
}
