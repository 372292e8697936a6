package locktest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Network is the way from a client to servers, as [relock.WithDialer] takes it.
// It can lead to one of them only.
type Network struct {
	mu    sync.Mutex
	only  string     // the address of this one; "" for all
	conns []net.Conn // all that were opened
}

// Dial opens a connection.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := n.check(address); err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.only != "" && n.only != address { // meanwhile
		_ = conn.Close()
	}
	n.conns = append(n.conns, conn)
	return conn, nil
}

func (n *Network) check(address string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.only != "" && n.only != address {
		return fmt.Errorf("dial %s: the network is cut", address)
	}
	return nil
}

// CutAllBut cuts the way to all servers but this one, until Restore.
func (n *Network) CutAllBut(s *redistest.Server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.only = s.Address
	for _, conn := range n.conns {
		if conn.RemoteAddr().String() != s.Address {
			_ = conn.Close()
		}
	}
}

// Restore opens all ways.
func (n *Network) Restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.only = ""
}

// FailOverWithout is FailOver beside a client that does not learn of it. The
// client takes the unfair lock, of which no replica knows, and reaches only the
// old master from then on. Its hold must end within one lease after that took
// its last write.
func (l *FailoverLoad) FailOverWithout(c *relock.Client, way *Network, end func(*redistest.Server, testing.TB)) {
	l.Helper()
	const lease = 4 * time.Second
	var h relock.Hold
	var from time.Time
	l.FailOver(func(old *redistest.Server, t testing.TB) {
		l.set.CutReplication(t, old)
		h = Take(t, relock.NewRedisLock(l.locks[0], c, relock.WithBlock(), relock.WithWatchdog(lease)).Acquire)
		from = time.Now()
		way.CutAllBut(old)
		end(old, t)
	})
	watch := testkit.NewStopwatch(l) // the old master is a replica by now
	require.ErrorIs(l, testkit.EndedWithin(l, h.Context(), lease+testkit.Patience), relock.ErrLockLost)
	watch.Within(lease, "a hold outlasts the old master")
	l.cutOff = append(l.cutOff, Span{l.since(from), l.since(time.Now())})
	way.Restore()
}

// overlapsOfCutOff returns how many holds were valid together with those of a
// client that was cut off, and for how long in sum, for each of these.
func (l *FailoverLoad) overlapsOfCutOff() (pairs []int, sums []time.Duration) {
	for _, one := range l.cutOff {
		n, sum := 0, time.Duration(0)
		for _, v := range l.visits[l.locks[0]] {
			if both := min(one.Until, v.Until) - max(one.From, v.From); both > 0 && v.From < v.Until {
				n++
				sum += time.Duration(both)
			}
		}
		pairs, sums = append(pairs, n), append(sums, sum.Round(time.Millisecond))
	}
	return pairs, sums
}
