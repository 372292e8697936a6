package test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	etcdlock "github.com/relock-go/relock/etcd"
	children "github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

func modeOf(opts []etcdlock.Option) string {
	if isFair(opts) {
		return "fair"
	}
	return "unfair"
}

// The lock of a killed process is granted to a waiter when its lease ends, and
// not before the validity of its hold.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		child := children.Spawn(t, "hold", strings.Join(c.endpoints, ","), modeOf(opts))
		child.Next("locked", patience)
		done := waiter(limited(t), newLocker(t, c.client(t), opts...), "key")
		time.Sleep(brief) // it is kept alive
		child.Send("until")
		until := child.Next("until", patience).Int(0)
		child.Kill()
		s, killed := testkit.NewStopwatch(t), time.Now()
		r := await(t, done)
		require.NoError(t, r.err)
		require.Greater(t, children.Stamp(r.at), until, "granted within the validity of the dead holder")
		s.Check(r.at.Sub(killed), brief+time.Second)
		unlock(t, r.hold)
	})
}

// A process that is stopped for longer than its lease finds the loss when it
// continues, and does not change the next hold.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		child := children.Spawn(t, "hold", strings.Join(c.endpoints, ","), modeOf(opts))
		child.Next("locked", patience)
		child.Stop()
		hold := lock(t, newLocker(t, c.client(t), opts...), "key")
		s, went := testkit.NewStopwatch(t), children.Now()
		child.Continue()
		lost := child.Next("lost", patience)
		s.Check(time.Duration(lost.Int(0)-went), 200*time.Millisecond)
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, hold.Err())
		require.Len(t, keysOf(t, c.client(t), "key"), 1)
		unlock(t, hold)
		child.End(patience)
	})
}

// Processes get a fair lock in the order of arrival, though one of them dies
// while it waits.
func TestOrderOverProcesses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	var all []*children.Child
	for n := range 5 {
		all = append(all, children.Spawn(t, "hold", strings.Join(c.endpoints, ","), "fair"))
		soon(t, "it is queued", func() bool { return len(keysOf(t, admin, "key")) == n+1 })
	}
	const dead = 2
	all[dead].Kill()
	for n, child := range all {
		if n == dead {
			continue
		}
		child.Next("locked", patience)
		for _, later := range all[n+1:] {
			require.Empty(t, later.Events(), "out of order")
		}
		child.End(patience)
	}
	noKeys(t, admin, "key")
}

// holding is when a goroutine of a helper process had the lock.
type holding struct{ from, to, token int64 }

// Three processes with ten goroutines each hold the lock for 20 ms, one after
// another and with rising tokens.
func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		var all []*children.Child
		for range 3 {
			all = append(all, children.Spawn(t, "workers", strings.Join(c.endpoints, ","), modeOf(opts), "20ms"))
		}
		var got []holding
		for _, child := range all {
			child.Next("done", patience)
			for _, e := range child.Events() {
				require.NotEqual(t, "failed", e.Name, "%v", e.Values)
				if e.Name == "held" {
					got = append(got, holding{e.Int(0), e.Int(1), e.Int(2)})
				}
			}
			child.End(patience)
		}
		require.Len(t, got, 30)
		slices.SortFunc(got, func(a, b holding) int { return cmp.Compare(a.from, b.from) })
		var gaps []time.Duration
		for i, h := range got[1:] {
			before := got[i]
			require.Greater(t, h.from, before.to, "two held the lock together")
			// The token of a fair lock is its position in the queue, so tokens
			// rise in the order of arrival, across all processes.
			require.Greater(t, h.token, before.token, "out of order")
			gaps = append(gaps, time.Duration(h.from-before.to))
		}
		slices.Sort(gaps)
		t.Logf("gaps from one holder to the next: p50 %v, p90 %v, most %v",
			gaps[len(gaps)/2], gaps[len(gaps)*9/10], gaps[len(gaps)-1])
	})
}
