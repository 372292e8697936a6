package conns_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// failingDials is a client with two connections in its pool, and maybe the
// shared one. No other connection can be opened.
type failingDials struct {
	fail   func(context.Context) error // nil if the server has no room
	silent bool                        // packets of the shared connection get lost
}

func (f failingDials) start(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	s := redistest.StartTCP(t)
	to := [2]*faults.Proxy{faults.Start(t, s.Network, s.Address), faults.Start(t, s.Network, s.Address)}
	to[0].On(faults.Command("SET"), faults.Every, faults.Delay(locktest.MomentOfALock))
	var fails atomic.Bool
	var at atomic.Int32
	c := locktest.NewTestClient(t, s,
		append(opts, relock.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			if fails.Load() && f.fail != nil {
				return nil, f.fail(ctx)
			}
			p := to[at.Load()]
			return system(ctx, p.Network, p.Address)
		}))...)
	warm(t, c, 2)
	if f.silent {
		at.Store(1)
		pool := locktest.PoolOf(c)
		apart := pool.SetApart(0)
		require.NoError(t, relock.NewRedisLock("opens", c).Do(t.Context(), locktest.Nothing))
		pool.SetApart(apart)
		to[1].Stall()
	}
	if fails.Store(true); f.fail == nil {
		redistest.FillUp(t, s)
	}
	return c
}

// New connections hang or are refused, and callers keep the open ones busy.
// Packets of one may get lost. Each hold is renewed over the connections that
// work, nearly all in time.
func TestHoldsOutliveFailingDials(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	testkit.Each(t, map[string]failingDials{
		"hang":                     {fail: hang},
		"hang, one flow is silent": {fail: hang, silent: true},
		"refused":                  {fail: func(context.Context) error { return syscall.ECONNREFUSED }},
		"no room":                  {},
	}, func(t *testing.T, _ string, f failingDials) {
		late := &locktest.LateRenewals{Lease: 6 * time.Second}
		late.CheckHolds(t, f.start(t, late.Observer()), 2)
	})
}
