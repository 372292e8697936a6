package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// After each fault in each request to one node of three, the call succeeds, and the nodes are given back within a second:
// the one with the fault is not needed. The cell looks at that one.
func TestOneFaultInARedLock(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	tcp := taught(t, redistest.StartTCP(t))
	awaitUp(t, tcp)
	var cells []cellRun
	for _, op := range bundleOps(script.RedLockAcquire, redReleases) {
		for _, f := range faultKinds {
			if f.copy && f.released && !op.releases || f.leaves {
				continue // see TestLateCopyOfAGrantedAcquire, and TestRedLockOutlivesItsCall
			}
			cells = append(cells, cellRun{op.name + "/" + f.name, func(t testing.TB) {
				first := servers[0]
				if f.tcp {
					first = tcp
				}
				v := variant{releases: op.releases}
				c := &bundleCell{newCell(t, first, WithCommandTimeout(v.patience(f))), op, f}
				b := &redBench{TB: t, servers: []*redistest.Server{first, servers[1], servers[2]}, prefix: c.client.config.prefix}
				mine := []*Client{c.client, b.client(servers[1]), b.client(servers[2])}
				others := []*Client{c.other, b.client(servers[1]), b.client(servers[2])}
				lock := func(clients []*Client, option LockOption) *RedLock {
					l := NewRedLock(cellKey, clients, WithMaxLease(cellLease), option)
					l.target.Settings.MaxLease = redLease // the servers are new, and remember all
					return l
				}
				free := func() bool {
					for _, s := range b.servers {
						if s.Do(t, "EXISTS", c.bench.Key) != int64(0) {
							return false
						}
					}
					return true
				}
				c.fault.granted = true // by the two others
				if h := c.meet(lock(mine, op.lease(cellLease))); h != nil {
					require.NoError(t, h.Unlock(t.Context()))
				}
				if f.released {
					require.Len(t, c.proxy.Release(), 1)
				}
				c.waitFor(cleanWithin+v.patience(f), free, "a node is still held")
				next := lock(others, WithExpiry(cellLease))
				if f.same {
					next = lock(mine, WithExpiry(cellLease))
				}
				h := c.acquiredOfAll(next)
				before := c.read()
				require.Equal(t, f.next, len(c.proxy.Release()) == 1) // what was held back finds nothing of its own
				c.proxy.Await(redReleases, c.proxy.Count(redReleases)+1, answerLimit)
				c.requireUntouched(before, c.read())
				require.NoError(t, h.Unlock(t.Context()))
				c.waitFor(cleanWithin, free, "a node is still held")
			}})
		}
	}
	cells = drawn(t, cells)
	together(t, cells)
}

// acquiredOfAll acquires on all nodes. The one with the fault may have granted the hold before a moment late.
func (c *bundleCell) acquiredOfAll(l *RedLock) Hold {
	for deadline := time.Now().Add(cellPatience); ; {
		h := c.acquired(l)
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if len(membersOf(h)) == l.quorum.Nodes() {
				return h
			}
		}
		require.NoError(c, h.Unlock(c.Context()))
		require.True(c, time.Now().Before(deadline), "not all nodes have granted it")
	}
}
