package matrix_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// After each fault in each request to one node of three, the call succeeds, and the nodes are given back within a second:
// the one with the fault is not needed. The cell looks at that one.
func TestOneFaultInARedLock(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	tcp := locktest.Taught(t, redistest.StartTCP(t))
	locktest.AwaitUp(t, tcp)
	var cells []locktest.CellRun
	for _, op := range bundleOps(script.RedLockAcquire, locktest.RedReleases) {
		for _, f := range faultKinds {
			if f.Copy && f.Released && !op.releases || f.Leaves {
				continue // see TestLateCopyOfAGrantedAcquire, and TestRedLockOutlivesItsCall
			}
			cells = append(cells, locktest.CellRun{Name: op.name + "/" + f.Name, Run: func(t testing.TB) {
				first := servers[0]
				if f.Tcp {
					first = tcp
				}
				v := locktest.Variant{Releases: op.releases}
				c := &bundleCell{locktest.NewCell(t, first, relock.WithCommandTimeout(v.Patience(f))), op, f}
				b := &locktest.RedBench{TB: t, Servers: []*redistest.Server{first, servers[1], servers[2]}, Prefix: locktest.Prefix(c.Client)}
				mine := []*relock.Client{c.Client, b.Client(servers[1]), b.Client(servers[2])}
				others := []*relock.Client{c.Other, b.Client(servers[1]), b.Client(servers[2])}
				lock := func(clients []*relock.Client, option relock.LockOption) *relock.RedLock {
					l := relock.NewRedLock(locktest.CellKey, clients, relock.WithMaxLease(locktest.CellLease), option)
					locktest.Target(l).Settings.MaxLease = locktest.RedLease // the servers are new, and remember all
					return l
				}
				free := func() bool {
					for _, s := range b.Servers {
						if s.Do(t, "EXISTS", c.Bench.Key) != int64(0) {
							return false
						}
					}
					return true
				}
				c.fault.Granted = true // by the two others
				if h := c.meet(lock(mine, op.lease(locktest.CellLease))); h != nil {
					require.NoError(t, h.Unlock(t.Context()))
				}
				if f.Released {
					require.Len(t, c.Proxy.Release(), 1)
				}
				c.WaitFor(locktest.CleanWithin+v.Patience(f), free, "a node is still held")
				next := lock(others, relock.WithExpiry(locktest.CellLease))
				if f.Same {
					next = lock(mine, relock.WithExpiry(locktest.CellLease))
				}
				h := c.acquiredOfAll(next)
				before := c.Read()
				require.Equal(t, f.Next, len(c.Proxy.Release()) == 1) // what was held back finds nothing of its own
				c.Proxy.Await(locktest.RedReleases, c.Proxy.Count(locktest.RedReleases)+1, locktest.AnswerLimit)
				c.RequireUntouched(before, c.Read())
				require.NoError(t, h.Unlock(t.Context()))
				c.WaitFor(locktest.CleanWithin, free, "a node is still held")
			}})
		}
	}
	cells = locktest.Drawn(t, cells)
	locktest.Together(t, cells)
}

// acquiredOfAll acquires on all nodes. The one with the fault may have granted the hold before a moment late.
func (c *bundleCell) acquiredOfAll(l *relock.RedLock) relock.Hold {
	for deadline := time.Now().Add(locktest.CellPatience); ; {
		h := c.acquired(l)
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if len(locktest.MembersOf(h)) == locktest.Quorum(l).Nodes() {
				return h
			}
		}
		require.NoError(c, h.Unlock(c.Context()))
		require.True(c, time.Now().Before(deadline), "not all nodes have granted it")
	}
}
