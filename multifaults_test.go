package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// bundleOp is one request of a lock that is made of several, in which a fault can be.
type bundleOp struct {
	name     string
	match    faults.Match
	releases bool
	lease    func(time.Duration) LockOption
}

func bundleOps(acquire *script.Script, releases faults.Match) (all []bundleOp) {
	for name, lease := range map[string]func(time.Duration) LockOption{"watched": WithWatchdog, "fixed": WithExpiry} {
		all = append(
			all,
			bundleOp{"acquire/" + name, faults.Script(acquire.SHA), false, lease},
			bundleOp{"release/" + name, releases, true, lease},
		)
	}
	return all
}

// bundleCell is a lock that meets one fault: the cell's own key is one of its, so that the cell looks at it.
type bundleCell struct {
	*cell
	op    bundleOp
	fault fault
}

func (c *bundleCell) action() faults.Action {
	if c.fault.late == nil {
		return c.fault.action
	}
	v := variant{releases: c.op.releases}
	late := 3 * v.patience(c.fault) / 2
	if c.op.releases {
		late /= 2
	}
	return c.fault.late(late)
}

// meet runs the operation, and returns the hold that is left, if any.
func (c *bundleCell) meet(lock anyLock) Hold {
	var h Hold
	if c.op.releases {
		h = c.acquired(lock)
	}
	n := c.proxy.Count(c.op.match) + 1
	done := c.proxy.On(c.op.match, 1, c.action())
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if c.fault.leaves {
		testkit.Async(c, func() error {
			c.proxy.Await(c.op.match, n, cellPatience)
			cancel()
			return nil
		})
	}
	if c.op.releases {
		require.NoError(c, h.Unlock(ctx))
		require.ErrorIs(c, h.Err(), ErrNotHeld)
		h = nil
	} else {
		h = c.try(ctx, lock)
	}
	c.await(done, "the fault did not happen")
	if c.fault.early {
		require.Len(c, c.proxy.Release(), 1)
	}
	return h
}

func (c *bundleCell) acquired(lock anyLock) Hold {
	h, err := lock.Acquire(c.Context())
	require.NoError(c, err)
	return h
}

// try acquires under the fault, and checks what comes of it.
func (c *bundleCell) try(ctx context.Context, lock anyLock) Hold {
	start := time.Now()
	h, err := lock.TryAcquire(ctx)
	if c.fault.granted {
		require.NoError(c, err)
		length := cellLease - lease.Drift(cellLease)
		require.False(c, h.ValidUntil().Before(start.Add(length)))
		require.False(c, h.ValidUntil().After(time.Now().Add(length)))
		return h
	}
	require.Error(c, err)
	for _, other := range []error{ErrLockAcquiredByOthers, ErrLockLost, ErrNotHeld, ErrKeyConflict} {
		require.NotErrorIs(c, err, other)
	}
	if ctx.Err() != nil {
		require.ErrorIs(c, err, ctx.Err())
	}
	return nil
}

// After each fault in each operation on several keys, all of them or none are held, as the client was told; they are given
// back within a second, and the next hold is not touched.
func TestOneFaultInAMultiLock(t *testing.T) {
	t.Parallel()
	unix, tcp := newFaultServer(t), taught(t, redistest.StartTCP(t))
	keys := []string{cellKey, "second", "third"}
	var cells []cellRun
	for _, op := range bundleOps(script.MultiAcquire, faults.Script(script.Release.SHA)) {
		for _, f := range faultKinds {
			if f.copy && f.released && !op.releases {
				continue // it takes the free keys, see TestLateCopyOfAGrantedAcquire
			}
			s := unix
			if f.tcp {
				s = tcp
			}
			cells = append(cells, cellRun{op.name + "/" + f.name, func(t testing.TB) {
				v := variant{releases: op.releases}
				c := &bundleCell{newCell(t, s, WithCommandTimeout(v.patience(f))), op, f}
				held := func(client *Client) int64 {
					return s.Do(t, "EXISTS", keyOf(client, keys[0]), keyOf(client, keys[1]), keyOf(client, keys[2])).(int64)
				}
				lock := NewMultiLock(keys, c.client, op.lease(cellLease))
				if h := c.meet(lock); h != nil {
					require.Equal(t, int64(3), held(c.client))
					require.NoError(t, h.Unlock(t.Context()))
				}
				if f.released {
					require.Len(t, c.proxy.Release(), 1)
				}
				c.waitFor(cleanWithin, func() bool { return held(c.client) == 0 }, "a key is still there")
				next := NewMultiLock(keys, c.other, WithExpiry(cellLease))
				if f.same {
					next = NewMultiLock(keys, c.client, WithExpiry(cellLease))
				}
				h := c.acquired(next)
				before := c.read()
				require.Equal(t, f.next, len(c.proxy.Release()) == 1) // what was held back finds nothing of its own
				c.proxy.Await(faults.Script(script.Release.SHA), c.proxy.Count(faults.Script(script.Release.SHA))+1, answerLimit)
				c.requireUntouched(before, c.read())
				require.Equal(t, int64(3), held(c.client))
				require.NoError(t, h.Unlock(t.Context()))
				requireNoQueues(t, s, c.client, keys...)
			}})
		}
	}
	together(t, cells)
}
