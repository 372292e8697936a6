package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A waiter may be granted the lock without an answer, and that hold may be
// marked to end by force before the request is sent again. The waiter goes on
// under another name, and its cancel releases the hold: otherwise the waiter
// would wait for itself until the lease ends.
func TestWaiterLeavesANameThatIsMarked(t *testing.T) {
	t.Parallel()
	s := locktest.WithScripts(t, redistest.Start(t))
	fair, long := relock.WithFair(), relock.WithWatchdog(time.Hour)
	type kind struct {
		enqueue *script.Script
		acquire func(c *relock.Client) func(context.Context) (relock.Hold, error)
	}
	testkit.Each(t, map[string]kind{
		"plain": {script.Enqueue, func(c *relock.Client) func(context.Context) (relock.Hold, error) {
			return relock.NewRedisLock("plain", c, relock.WithBlock(), fair, long).Acquire
		}},
		"reentrant": {script.Enqueue, func(c *relock.Client) func(context.Context) (relock.Hold, error) {
			return relock.NewReentrantLock("reentrant", c, relock.WithBlock(), fair, long).Acquire
		}},
		"readers": {script.RWEnqueue, func(c *relock.Client) func(context.Context) (relock.Hold, error) {
			return relock.NewRWLock("readers", c, relock.WithBlock(), fair, long).RAcquire
		}},
		"writer": {script.RWEnqueue, func(c *relock.Client) func(context.Context) (relock.Hold, error) {
			return relock.NewRWLock("writer", c, relock.WithBlock(), fair, long).Acquire
		}},
	}, func(t *testing.T, name string, k kind) {
		c, proxy := locktest.Behind(t, s)
		operator := locktest.Sibling(t, s, c)
		requests, open := faults.Script(k.enqueue.SHA), make(chan struct{})
		unanswered := proxy.On(requests, 1, faults.CutAfter)
		proxy.On(requests, 2, faults.DelayRequestUntil(open))
		holds := make(chan relock.Hold, 1)
		granted := testkit.Async(t, func() error {
			h, err := k.acquire(c)(t.Context())
			holds <- h
			return err
		})
		<-unanswered
		forced := testkit.Async(t, func() error { return operator.ForceUnlock(t.Context(), name, "it hangs") })
		testkit.Eventually(t, testkit.Patience, func() bool {
			i := locktest.Inspect(t, operator, name)
			return i.Holder != nil && i.Holder.Forced || len(i.Readers) == 1 && i.Readers[0].Forced
		}, "marked")
		close(open)
		require.NoError(t, testkit.ResultWithin(t, granted, testkit.Patience))
		require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
		h := <-holds
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock(t.Context()))
		// A poll that is under way may put the waiter back for a moment.
		testkit.Eventually(t, testkit.Patience, func() bool {
			return s.Do(t, "EXISTS", locktest.KeyOf(c, name)) == int64(0)
		}, "free")
	})
}
