package conns_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
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

// lateRenewals collects how late leases of one length are renewed.
type lateRenewals struct {
	lease time.Duration

	mu   sync.Mutex
	sent map[string]time.Time // the grant or the last renewal
	by   []time.Duration
}

func (l *lateRenewals) observer() relock.ClientOption {
	l.sent = map[string]time.Time{}
	return relock.WithObserver(relock.Observer{
		LockDone: func(_ context.Context, e relock.LockDone) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.sent[e.Key] = e.Start
		},
		RenewDone: func(_ context.Context, e relock.RenewDone) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if e.Err == nil {
				earliest := l.lease * 3 / 10 // a third, shortened by a tenth
				l.by = append(l.by, e.End.Sub(l.sent[e.Key])-earliest)
				l.sent[e.Key] = e.Start
			}
		},
	})
}

// p99 returns by how much one renewal in a hundred was late, or more, and how
// many there were.
func (l *lateRenewals) p99() (by time.Duration, of int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.by)
	return l.by[len(l.by)*99/100], len(l.by)
}

// failingDials is a client with two connections in its pool, and maybe the
// shared one. No other connection can be opened.
type failingDials struct {
	fail   func(context.Context) error // nil if the server has no room
	silent bool                        // packets of the shared connection get lost
}

func (f failingDials) start(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	s := redistest.StartTCP(t)
	to := [2]*faults.Proxy{faults.Start(t, s.Network, s.Address), faults.Start(t, s.Network, s.Address)}
	to[0].On(faults.Command("SET"), faults.Every, faults.Delay(20*time.Millisecond)) // so that callers keep it
	var fails atomic.Bool
	var at atomic.Int32
	c := locktest.NewTestClient(t, s, append(opts, relock.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
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
	const lease, holds, busy = 6 * time.Second, 50, 2
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	testkit.Each(t, map[string]failingDials{
		"hang":                     {fail: hang},
		"hang, one flow is silent": {fail: hang, silent: true},
		"refused":                  {fail: func(context.Context) error { return syscall.ECONNREFUSED }},
		"no room":                  {},
	}, func(t *testing.T, _ string, f failingDials) {
		late := &lateRenewals{lease: lease}
		c := f.start(t, late.observer())
		machine := testkit.NewStopwatch(t)
		var all []relock.Hold
		for i := range holds {
			all = append(all, locktest.Acquire(t, c, fmt.Sprint("k", i), relock.WithWatchdog(lease)))
		}
		granted := grantOthers(t, c, busy, 2*lease)
		for _, h := range all {
			require.NoError(t, h.Err())
		}
		by, renewals := late.p99()
		t.Log("granted to others:", granted, "renewals:", renewals, "late by, p99:", by)
		require.Positive(t, granted)
		machine.Check(by, lease/12)
	})
}

// grantOthers takes and releases other locks for some time, and returns how
// often it succeeded.
func grantOthers(t testing.TB, c *relock.Client, goroutines int, d time.Duration) int64 {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var group sync.WaitGroup
	var granted atomic.Int64
	for i := range goroutines {
		group.Go(func() {
			for ctx.Err() == nil {
				if relock.NewRedisLock(fmt.Sprint("other", i), c).TryDo(ctx, locktest.Nothing) == nil {
					granted.Add(1)
				}
			}
		})
	}
	group.Wait()
	return granted.Load()
}
