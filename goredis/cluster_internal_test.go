package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/testkit"
)

// layout is the table that a client of go-redis loads, without a network.
type layout struct {
	mu     sync.Mutex
	owners []string // of equal shares of the slots
	err    error
	loads  int
	delay  time.Duration
}

func (l *layout) set(owners ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners = owners
}

func (l *layout) fail(err error, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.delay = err, delay
}

func (l *layout) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loads
}

func (l *layout) slots(context.Context) ([]redis.ClusterSlot, error) {
	l.mu.Lock()
	l.loads++
	owners, err, delay := l.owners, l.err, l.delay
	l.mu.Unlock()
	time.Sleep(delay) // ignores the context, as go-redis does
	var all []redis.ClusterSlot
	for i, owner := range owners {
		all = append(all, redis.ClusterSlot{
			Start: i * 16384 / len(owners), End: (i+1)*16384/len(owners) - 1, Nodes: []redis.ClusterNode{{Addr: owner}},
		})
	}
	return all, err
}

// clusterOf returns a topology that loads this table.
func clusterOf(t *testing.T, l *layout) *cluster {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: l.slots})
	c := newCluster(rdb)
	t.Cleanup(func() {
		c.close()
		require.NoError(t, rdb.Close())
		time.Sleep(time.Second) // go-redis rests for a moment after a load
	})
	return c
}

func requireMaster(t *testing.T, c *cluster, want string) {
	t.Helper()
	address, err := c.master(t.Context(), "{k}:q")
	require.NoError(t, err)
	require.Equal(t, want, address)
}

func requireMasters(t *testing.T, c *cluster, changed bool, want ...string) {
	t.Helper()
	all, err := c.all(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, all)
	select {
	case <-c.changes:
		require.True(t, changed, "a change")
	default:
		require.False(t, changed, "no change")
	}
}

func TestTableIsLoadedOnceAMinute(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := &layout{owners: []string{"10.0.0.1:1", "10.0.0.1:2"}}
		c := clusterOf(t, l)
		require.Zero(t, l.count())
		requireMasters(t, c, false, "10.0.0.1:1", "10.0.0.1:2")
		time.Sleep(10*time.Minute + time.Second)
		require.InDelta(t, 11, l.count(), 1)
		l.set("10.0.0.1:1", "10.0.0.1:3")
		time.Sleep(loadPause)
		requireMasters(t, c, true, "10.0.0.1:1", "10.0.0.1:3")
	})
}

// Loads are frequent while a server fails, but not more so with more failures.
// The failure of a server without slots begins none.
func TestLoadsAreLimited(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := &layout{owners: []string{"10.0.0.1:1", "10.0.0.1:2"}}
		c := clusterOf(t, l)
		c.invalidate("10.0.0.1:1") // before the first load
		requireMasters(t, c, false, "10.0.0.1:1", "10.0.0.1:2")
		c.invalidate("10.0.0.1:3")
		time.Sleep(time.Second)
		require.Equal(t, 1, l.count())
		for range 3000 {
			c.invalidate("10.0.0.1:1")
			time.Sleep(time.Millisecond)
		}
		require.Greater(t, l.count(), 7)
		require.Less(t, l.count(), 26)
	})
}

// A redirect counts immediately, and until the table agrees. One for once
// counts for nothing.
func TestRedirectCountsUntilTheTableAgrees(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := &layout{owners: []string{"10.0.0.1:1"}}
		c := clusterOf(t, l)
		requireMaster(t, c, "10.0.0.1:1")
		require.Equal(t, "10.0.0.1:2", c.redirect("k", "10.0.0.1:1", "10.0.0.1:2", true))
		requireMaster(t, c, "10.0.0.1:1")
		requireMasters(t, c, false, "10.0.0.1:1")
		require.Equal(t, "10.0.0.1:2", c.redirect("{k}", "10.0.0.1:1", "10.0.0.1:2", false))
		c.invalidate("10.0.0.1:1") // as the router does
		requireMaster(t, c, "10.0.0.1:2")
		requireMasters(t, c, true, "10.0.0.1:1", "10.0.0.1:2")
		time.Sleep(3 * time.Second)
		requireMaster(t, c, "10.0.0.1:2")
		require.Greater(t, l.count(), 7, "the table is loaded again")
		l.set("10.0.0.1:2")
		time.Sleep(2 * alarmPause)
		requireMasters(t, c, true, "10.0.0.1:2")
		l.set("10.0.0.1:3")
		before := l.count()
		time.Sleep(2 * loadPause)
		requireMaster(t, c, "10.0.0.1:3")
		require.LessOrEqual(t, l.count()-before, 3, "the redirect is forgotten")
	})
}

// A redirect is forgotten after a while, since a server may have two names, and
// immediately if its server fails.
func TestRedirectThatNoTableConfirms(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := &layout{owners: []string{"10.0.0.1:1"}}
		c := clusterOf(t, l)
		requireMaster(t, c, "10.0.0.1:1")
		c.redirect("k", "10.0.0.1:1", "10.0.0.1:2", false)
		time.Sleep(fixTime - alarmPause)
		requireMaster(t, c, "10.0.0.1:2")
		time.Sleep(3 * alarmPause)
		requireMaster(t, c, "10.0.0.1:1")
		c.redirect("k", "10.0.0.1:1", "10.0.0.1:2", false)
		c.invalidate("10.0.0.1:2")
		requireMaster(t, c, "10.0.0.1:1")
	})
}

// A load that waits for a server that hangs delays no other for long, and no
// caller beyond its context. There are never many.
func TestSlowLoad(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := &layout{owners: []string{"10.0.0.1:1"}, delay: time.Hour}
		c := clusterOf(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.master(ctx, "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		l.fail(nil, 0)
		requireMaster(t, c, "10.0.0.1:1")
		l.fail(nil, time.Hour)
		before := l.count()
		for range 1000 {
			c.invalidate("10.0.0.1:1")
			time.Sleep(10 * time.Millisecond)
		}
		begun := l.count() - before
		requireMaster(t, c, "10.0.0.1:1")
		start := time.Now()
		c.close()
		require.LessOrEqual(t, time.Since(start), closeWait)
		time.Sleep(2 * time.Hour) // until the loads have ended
		require.Equal(t, maxLoads-1, begun)
	})
}

// A table that cannot be loaded is the error of the call, until it is loaded.
func TestTableThatFails(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := &layout{err: errors.New("no server answers")}
		c := clusterOf(t, l)
		_, err := c.master(t.Context(), "k")
		require.ErrorContains(t, err, "no server answers")
		l.fail(nil, 0)
		_, err = c.all(t.Context())
		require.ErrorContains(t, err, "CLUSTERDOWN")
		l.set("10.0.0.1:1")
		requireMasters(t, c, false, "10.0.0.1:1")
		l.fail(errors.New("no server answers"), 0)
		time.Sleep(2 * loadPause)
		requireMaster(t, c, "10.0.0.1:1")
		c.close()
		requireMaster(t, c, "10.0.0.1:1")
	})
	c := clusterOf(t, &layout{})
	c.close()
	_, err := c.master(t.Context(), "k")
	require.ErrorIs(t, err, relock.ErrClosed)
}

// A server that only a redirect has named is reached as go-redis would: the
// user's NewClient may change its address.
func TestServerThatARedirectNames(t *testing.T) {
	t.Parallel()
	l := &layout{owners: []string{"10.0.0.1:1"}}
	for _, changed := range []bool{false, true} {
		var dialled []string
		o := &redis.ClusterOptions{ClusterSlots: l.slots, Dialer: func(_ context.Context, network, address string) (net.Conn, error) {
			dialled = append(dialled, network+" "+address)
			return nil, net.ErrClosed
		}}
		want := []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}
		if changed {
			change := strings.NewReplacer("10.0.", "10.1.", "10.1.", "10.2.")
			o.NewClient = func(o *redis.Options) *redis.Client {
				o.Addr = change.Replace(o.Addr)
				return redis.NewClient(o)
			}
			want = []string{"10.1.0.1:1", "10.1.0.2:1", "10.1.0.3:1"}
		}
		rdb := redis.NewClusterClient(o)
		defer rdb.Close() //nolint:errcheck // it has no connection
		c := newCluster(rdb)
		defer c.close()
		requireMaster(t, c, want[0])
		require.Equal(t, want[1], c.redirect("k", want[0], "10.0.0.2:1", false))
		requireMaster(t, c, want[1])
		for _, address := range []string{want[0], want[1], "10.0.0.3:1"} {
			_, err := c.dial(t.Context(), address)
			require.ErrorIs(t, err, net.ErrClosed)
		}
		require.Equal(t, []string{"tcp " + want[0], "tcp " + want[1], "tcp " + want[2]}, dialled)
	}
}

// A server without a host is that which has answered. A loopback address is
// that of the machine which has answered.
func TestNamed(t *testing.T) {
	for _, tt := range [][3]string{
		{"10.0.0.1:7", "10.0.0.2:8", "10.0.0.2:8"},
		{"10.0.0.1:7", ":8", "10.0.0.1:8"},
		{"10.0.0.1:7", "127.0.0.1:8", "10.0.0.1:8"},
		{"redis.example:7", "127.0.0.1:8", "redis.example:8"},
		{"127.0.0.1:7", "127.0.0.2:8", "127.0.0.2:8"},
		{"localhost:7", "127.0.0.1:8", "127.0.0.1:8"},
		{"[fd00::1]:7", "[fd00::2]:8", "[fd00::2]:8"},
		{"[fd00::1]:7", ":8", "[fd00::1]:8"},
		{":7", ":8", ":8"}, // which is localhost
		{":7", "127.0.0.1:8", "127.0.0.1:8"},
		{"no port", ":8", ""},
		{"no port", "127.0.0.1:8", "127.0.0.1:8"},
		{"10.0.0.1:7", "no port", ""},
	} {
		require.Equal(t, tt[2], named(tt[0], tt[1]), fmt.Sprint(tt))
	}
}
