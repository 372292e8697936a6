package locktest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// LateRenewals collects how late leases of one length are renewed.
type LateRenewals struct {
	Lease time.Duration

	mu   sync.Mutex
	sent map[string]time.Time // the grant or the last renewal
	by   []time.Duration
}

// Observer returns the option of the client whose renewals are collected.
func (l *LateRenewals) Observer() relock.ClientOption {
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
				earliest := l.Lease * 3 / 10 // a third, shortened by a tenth
				l.by = append(l.by, e.End.Sub(l.sent[e.Key])-earliest)
				l.sent[e.Key] = e.Start
			}
		},
	})
}

// P99 returns by how much one renewal in a hundred was late, or more, and how
// many there were.
func (l *LateRenewals) P99() (by time.Duration, of int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.by)
	return l.by[len(l.by)*99/100], len(l.by)
}

// CheckHolds takes locks with a watchdog, and other locks by some goroutines
// meanwhile. Each hold is renewed, nearly all in time.
func (l *LateRenewals) CheckHolds(t testing.TB, c *relock.Client, goroutines int) {
	t.Helper()
	machine := testkit.NewStopwatch(t)
	var all []relock.Hold
	for _, key := range Numbered("k", 50) {
		all = append(all, Acquire(t, c, key, relock.WithWatchdog(l.Lease)))
	}
	granted := GrantOthers(t, c, goroutines, 2*l.Lease)
	for _, h := range all {
		require.NoError(t, h.Err())
	}
	by, renewals := l.P99()
	t.Log("granted to others:", granted, "renewals:", renewals, "late by, p99:", by)
	require.Positive(t, granted)
	machine.Check(by, l.Lease/12)
}

// GrantOthers takes and releases other locks for some time, in all slots, and
// returns how often it succeeded. It cuts no call short, which would cost a
// connection.
func GrantOthers(t testing.TB, c *relock.Client, goroutines int, d time.Duration) int64 {
	start := time.Now()
	var group sync.WaitGroup
	var granted atomic.Int64
	for i := range goroutines {
		group.Go(func() {
			for n := 0; time.Since(start) < d; n = (n + 1) % 20 {
				other := relock.NewRedisLock(fmt.Sprint("other", i, ".", n), c)
				if other.TryDo(t.Context(), Nothing) == nil {
					granted.Add(1)
				}
			}
		})
	}
	group.Wait()
	return granted.Load()
}

// MomentOfALock is how long a server takes for a lock, so that its caller keeps
// the connection for a while.
const MomentOfALock = 20 * time.Millisecond

// HungDials is a network whose new connections hang after a time. Servers take
// a moment for a lock, so that callers keep connections.
type HungDials struct {
	hole    string                   // where all are accepted, and none is answered; "" if dials hang
	servers map[string]*faults.Proxy // by address
	hang    atomic.Bool
}

// NewHungDials returns the network of these servers. Others are reached, too.
func NewHungDials(t testing.TB, servers ...*redistest.Server) *HungDials {
	d := &HungDials{servers: map[string]*faults.Proxy{}}
	for _, s := range servers {
		p := faults.Start(t, s.Network, s.Address)
		p.On(faults.Command("SET"), faults.Every, faults.Delay(MomentOfALock))
		d.servers[s.Address] = p
	}
	return d
}

// Dial connects, or hangs.
func (d *HungDials) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d.hang.Load() {
		if d.hole != "" {
			return new(net.Dialer).DialContext(ctx, "tcp", d.hole)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p := d.servers[address]; p != nil {
		network, address = p.Network, p.Address
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// OnHungDials starts servers, and returns their network, and what opens a
// client on it.
type OnHungDials func(testing.TB) (d *HungDials, open func(...relock.ClientOption) *relock.Client)

// Check requires that holds outlive dials that hang, and connections that are
// accepted and then silent. The watchdog has no connection when they begin.
func (start OnHungDials) Check(t *testing.T) {
	testkit.Each(t, map[string]bool{"hang": false, "are silent": true}, func(t *testing.T, _ string, silent bool) {
		d, open := start(t)
		if silent {
			l := redistest.Listen(t)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			d.hole = l.Addr().String()
		}
		const busy = 8 // more than have a connection each
		late := &LateRenewals{Lease: 6 * time.Second}
		c := open(late.Observer())
		require.Positive(t, GrantOthers(t, c, 2, time.Second), "connects")
		d.hang.Store(true)
		late.CheckHolds(t, c, busy)
	})
}
