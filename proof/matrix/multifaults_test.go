package matrix_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// bundleOp is one request of a lock that is made of several, in which a fault can be.
type bundleOp struct {
	name     string
	match    faults.Match
	releases bool
	lease    func(time.Duration) relock.LockOption
}

func bundleOps(acquire *script.Script, releases faults.Match) (all []bundleOp) {
	for name, lease := range map[string]func(time.Duration) relock.LockOption{"watched": relock.WithWatchdog, "fixed": relock.WithExpiry} {
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
	*locktest.Cell
	op    bundleOp
	fault locktest.Fault
}

func (c *bundleCell) action() faults.Action {
	if c.fault.Late == nil {
		return c.fault.Action
	}
	v := locktest.Variant{Releases: c.op.releases}
	late := 3 * v.Patience(c.fault) / 2
	if c.op.releases {
		late /= 2
	}
	return c.fault.Late(late)
}

// meet runs the operation, and returns the hold that is left, if any.
func (c *bundleCell) meet(lock locktest.AnyLock) relock.Hold {
	var h relock.Hold
	if c.op.releases {
		h = c.acquired(lock)
	}
	n := c.Proxy.Count(c.op.match) + 1
	done := c.Proxy.On(c.op.match, 1, c.action())
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if c.fault.Leaves {
		testkit.Async(c, func() error {
			c.Proxy.Await(c.op.match, n, locktest.CellPatience)
			cancel()
			return nil
		})
	}
	if c.op.releases {
		require.NoError(c, h.Unlock(ctx))
		require.ErrorIs(c, h.Err(), relock.ErrNotHeld)
		h = nil
	} else {
		h = c.try(ctx, lock)
	}
	c.Await(done, "the fault did not happen")
	if c.fault.Early {
		require.Len(c, c.Proxy.Release(), 1)
	}
	return h
}

func (c *bundleCell) acquired(lock locktest.AnyLock) relock.Hold {
	h, err := lock.Acquire(c.Context())
	require.NoError(c, err)
	return h
}

// try acquires under the fault, and checks what comes of it.
func (c *bundleCell) try(ctx context.Context, lock locktest.AnyLock) relock.Hold {
	start := time.Now()
	h, err := lock.TryAcquire(ctx)
	if c.fault.Granted {
		require.NoError(c, err)
		length := locktest.CellLease - lease.Drift(locktest.CellLease)
		require.False(c, h.ValidUntil().Before(start.Add(length)))
		require.False(c, h.ValidUntil().After(time.Now().Add(length)))
		return h
	}
	require.Error(c, err)
	for _, other := range []error{relock.ErrLockAcquiredByOthers, relock.ErrLockLost, relock.ErrNotHeld, relock.ErrKeyConflict} {
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
	unix, tcp := locktest.NewFaultServer(t), locktest.Taught(t, redistest.StartTCP(t))
	keys := []string{locktest.CellKey, "second", "third"}
	var cells []locktest.CellRun
	for _, op := range bundleOps(script.MultiAcquire, faults.Script(script.Release.SHA)) {
		for _, f := range faultKinds {
			if f.Copy && f.Released && !op.releases {
				continue // it takes the free keys, see TestLateCopyOfAGrantedAcquire
			}
			s := unix
			if f.Tcp {
				s = tcp
			}
			cells = append(cells, locktest.CellRun{Name: op.name + "/" + f.Name, Run: func(t testing.TB) {
				v := locktest.Variant{Releases: op.releases}
				c := &bundleCell{locktest.NewCell(t, s, relock.WithCommandTimeout(v.Patience(f))), op, f}
				held := func(client *relock.Client) int64 {
					return s.Do(t, "EXISTS", locktest.KeyOf(client, keys[0]), locktest.KeyOf(client, keys[1]), locktest.KeyOf(client, keys[2])).(int64)
				}
				lock := relock.NewMultiLock(keys, c.Client, op.lease(locktest.CellLease))
				if h := c.meet(lock); h != nil {
					require.Equal(t, int64(3), held(c.Client))
					require.NoError(t, h.Unlock(t.Context()))
				}
				if f.Released {
					require.Len(t, c.Proxy.Release(), 1)
				}
				c.WaitFor(locktest.CleanWithin, func() bool { return held(c.Client) == 0 }, "a key is still there")
				next := relock.NewMultiLock(keys, c.Other, relock.WithExpiry(locktest.CellLease))
				if f.Same {
					next = relock.NewMultiLock(keys, c.Client, relock.WithExpiry(locktest.CellLease))
				}
				h := c.acquired(next)
				before := c.Read()
				require.Equal(t, f.Next, len(c.Proxy.Release()) == 1) // what was held back finds nothing of its own
				c.Proxy.Await(faults.Script(script.Release.SHA), c.Proxy.Count(faults.Script(script.Release.SHA))+1, locktest.AnswerLimit)
				c.RequireUntouched(before, c.Read())
				require.Equal(t, int64(3), held(c.Client))
				require.NoError(t, h.Unlock(t.Context()))
				locktest.RequireNoQueues(t, s, c.Client, keys...)
			}})
		}
	}
	locktest.Together(t, cells)
}
