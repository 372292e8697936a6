package proof

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// way is the way from a client to servers, as [relock.WithDialer] takes it.
// It can lead to one of them only.
type way struct {
	mu    sync.Mutex
	only  string     // the address of this one; "" for all
	conns []net.Conn // all that were opened
}

// dial opens a connection.
func (n *way) dial(ctx context.Context, network, address string) (net.Conn, error) {
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

func (n *way) check(address string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.only != "" && n.only != address {
		return fmt.Errorf("dial %s: the network is cut", address)
	}
	return nil
}

// cutAllBut cuts the way to all servers but this one, until restore.
func (n *way) cutAllBut(s *redistest.Server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.only = s.Address
	for _, conn := range n.conns {
		if conn.RemoteAddr().String() != s.Address {
			_ = conn.Close()
		}
	}
}

// restore opens all ways.
func (n *way) restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.only = ""
}

// cutOff is a client that does not learn of failovers, beside a load. It takes
// the unfair lock, of which no replica knows.
type cutOff struct {
	*locktest.FailoverLoad
	set   locktest.FailingSet
	lock  string
	way   way
	holds []locktest.Span
}

// failOver is that of the load. The client has the lock, and reaches only the
// old master from then on. Its hold must end within one lease after that took
// its last write.
func (l *cutOff) failOver(c *relock.Client, end func(*redistest.Server, testing.TB)) {
	l.Helper()
	const lease = 4 * time.Second
	var h relock.Hold
	var from time.Time
	l.FailOver(func(old *redistest.Server, t testing.TB) {
		l.set.CutReplication(t, old)
		h = locktest.Take(t, relock.NewRedisLock(l.lock, c, relock.WithBlock(), relock.WithWatchdog(lease)).Acquire)
		from = time.Now()
		l.way.cutAllBut(old)
		end(old, t)
	})
	watch := testkit.NewStopwatch(l) // the old master is a replica by now
	require.ErrorIs(l, testkit.EndedWithin(l, h.Context(), lease+testkit.Patience), relock.ErrLockLost)
	watch.Within(lease, "a hold outlasts the old master")
	l.holds = append(l.holds, locktest.Span{From: l.Since(from), Until: l.Since(time.Now())})
	l.way.restore()
}

// report is that of the load, and logs how many holds were valid together with
// those of the client, and for how long in sum.
func (l *cutOff) report() {
	l.Helper()
	l.Report()
	for _, one := range l.holds {
		n, sum := 0, time.Duration(0)
		for _, v := range l.Visits(l.lock) {
			if both := min(one.Until, v.Until) - max(one.From, v.From); both > 0 && v.From < v.Until {
				n++
				sum += time.Duration(both)
			}
		}
		l.Logf("a hold of the client that was cut off overlaps with %d, for %v in sum", n, sum.Round(time.Millisecond))
	}
}
