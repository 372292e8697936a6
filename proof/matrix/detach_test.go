package matrix_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
)

// transfers are the requests of Detach and Resume, by the kind of the lock.
var transfers = map[string]faults.Match{
	"RedisLock":     faults.Script(script.Transfer.SHA),
	"ReentrantLock": faults.Script(script.ReentrantTransfer.SHA),
}

// tokenTime is how long a detached lock stays here: longer than any test.
const tokenTime = time.Minute

// moved is one Detach or Resume that meets one fault.
type moved struct {
	*locktest.FaultBench
	kind  string
	fault fault
}

// After each fault in a Detach or a Resume there is one hold or one token, or
// the lock is free within a second. A message that comes later changes nothing.
func TestOneFaultInADetachOrResume(t *testing.T) {
	servers := serversByTCP(t)
	t.Parallel()
	var cells []locktest.Subtest
	for kind := range transfers {
		for name, op := range map[string]func(*moved){"detach": (*moved).detach, "resume": (*moved).resume} {
			for _, f := range faultKinds {
				cells = append(cells, locktest.Subtest{Name: kind + "/" + name + "/" + f.name, Run: func(t testing.TB) {
					limit := locktest.FaultPatience
					if f.silent || f.leaves {
						limit = locktest.AnswerLimit
					}
					op(&moved{newBench(t, servers[f.tcp], relock.WithCommandTimeout(limit)), kind, f})
				}})
			}
		}
	}
	locktest.RunTogether(t, drawn(t, cells))
}

// detach takes the lock, and meets the fault in Detach.
func (c *moved) detach() {
	h := c.Take(c.kind, relock.WithFencing())
	var token string
	err := c.meet(func(ctx context.Context) (err error) {
		token, err = c.Client.Detach(ctx, h, tokenTime)
		return err
	})
	require.ErrorIs(c, h.Err(), relock.ErrDetached)
	if err != nil {
		require.ErrorIs(c, err, relock.ErrUnconfirmed)
		c.RequireLevels(0)
		c.goOn(nil)
		return
	}
	next, err := c.Other.Resume(c.Context(), token)
	require.NoError(c, err)
	require.Equal(c, h.Fence(), next.Fence())
	c.goOn(next)
}

// resume detaches the lock, and meets the fault in Resume.
func (c *moved) resume() {
	first := locktest.Take(c, c.lock(c.Other).Acquire)
	token, err := c.Other.Detach(c.Context(), first, tokenTime)
	require.NoError(c, err)
	var h relock.Hold
	err = c.meet(func(ctx context.Context) (err error) {
		h, err = c.Client.Resume(ctx, token)
		return err
	})
	if err == nil {
		require.NoError(c, h.Err())
		_, err = c.Other.Resume(c.Context(), token)
		require.ErrorIs(c, err, relock.ErrLockLost)
		require.NoError(c, h.Unlock(c.Context()))
		c.RequireLevels(0)
		c.goOn(nil)
		return
	}
	require.NotErrorIs(c, err, relock.ErrLockLost)
	c.WaitFor(locktest.CleanWithin, func() bool {
		h, err = c.Other.Resume(c.Context(), token)
		return err == nil || errors.Is(err, relock.ErrLockLost) && c.Levels() == 0
	}, "the lock is neither free nor detached")
	c.goOn(h)
}

func (c *moved) lock(client *relock.Client) locktest.AnyLock {
	return locktest.Kinds[c.kind](locktest.FaultKey, client, relock.WithFencing())
}

// goOn unlocks the lock, or takes it if it is free. A message that was held
// back comes before or after the Unlock, and changes nothing.
func (c *moved) goOn(h relock.Hold) {
	if h == nil {
		h = locktest.Take(c, c.lock(c.Other).TryAcquire)
	}
	before := c.Read()
	if !c.fault.released {
		c.Proxy.Release()
	}
	c.RequireUntouched(before, c.Read())
	require.NoError(c, h.Unlock(c.Context()))
	c.RequireLevels(0)
	c.Proxy.Release()
	c.RequireLevels(0)
	require.NoError(c, c.lock(c.Other).TryLock(c.Context()))
}

// meet runs the operation with the fault.
func (c *moved) meet(op func(context.Context) error) (err error) {
	c.fault.meet(c.FaultBench, transfers[c.kind], 3*locktest.AnswerLimit/2, func(ctx context.Context) { err = op(ctx) })
	return err
}

// withLateAcquire runs the test with a hold of each kind. The proxy keeps a
// copy of its acquire until the test releases that.
func withLateAcquire(t *testing.T, test func(c *moved, h relock.Hold)) {
	t.Helper()
	s := locktest.NewServerWithScripts(t)
	t.Parallel()
	for kind, acquire := range map[string]faults.Match{
		"RedisLock": faults.Script(script.Acquire.SHA), "ReentrantLock": faults.Script(script.ReentrantAcquire.SHA),
	} {
		t.Run(kind, func(t *testing.T) {
			c := &moved{newBench(t, s), kind, fault{}}
			c.Proxy.On(acquire, 1, faults.HoldAndCut)
			test(c, c.Take(kind, relock.WithFencing()))
		})
	}
}

// A late copy of the acquire takes the lock again once it is free. It is
// released, though its hold was detached.
func TestLateAcquireOfADetachedHold(t *testing.T) {
	withLateAcquire(t, func(c *moved, h relock.Hold) {
		token, err := c.Client.Detach(c.Context(), h, tokenTime)
		require.NoError(c, err)
		next, err := c.Other.Resume(c.Context(), token)
		require.NoError(c, err)
		require.NoError(c, next.Unlock(c.Context()))
		require.Len(c, c.Proxy.Release(), 1)
		c.RequireLevels(0)
	})
}

// Late copies of the acquire and of Detach, in this order, would make the
// detached hold again. So there is no token, and both are released.
func TestLateAcquireAndLateDetach(t *testing.T) {
	withLateAcquire(t, func(c *moved, h relock.Hold) {
		c.Proxy.On(transfers[c.kind], 1, faults.HoldAndCut)
		token, err := c.Client.Detach(c.Context(), h, tokenTime)
		require.ErrorIs(c, err, relock.ErrUnconfirmed)
		require.Empty(c, token)
		c.RequireLevels(0)
		require.Len(c, c.Proxy.Release(), 2)
		c.RequireLevels(0)
		require.NoError(c, c.lock(c.Other).TryLock(c.Context()))
	})
}
