package lease_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// A call whose context ends while the lock is on its way to it ends at once, and the lock goes to the next one.
func TestTransferToACallThatLeaves(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 1, 2} {
		t.Run(strconv.Itoa(more)+" more", func(t *testing.T) {
			t.Parallel()
			q, proxy := locktest.NewTransferBenchBehind(t)
			h := q.Take(q.Clients[0])
			ctx, cancel := context.WithCancel(t.Context())
			w := q.Sits(ctx, 0)
			var others []*locktest.Waiting
			for n := range more {
				others = append(others, q.Sits(t.Context(), n+1))
			}
			const late = time.Second
			proxy.On(locktest.TransferOnly, 1, faults.Delay(late))
			locktest.Fresh(h)
			unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
			require.True(t, proxy.Await(locktest.TransferOnly, 1, testkit.Patience))
			start := time.Now()
			cancel()
			require.ErrorIs(t, w.End(), context.Canceled)
			require.ErrorIs(t, w.Err, relock.ErrLockAcquiredByOthers)
			require.Less(t, time.Since(start), late/2, "it waits for the transfer")
			require.NoError(t, testkit.ResultWithin(t, unlocked, testkit.Patience))
			for _, other := range others {
				q.Unlock(other.Granted())
			}
			testkit.Eventually(t, lockspec.DefaultLease/3, func() bool { return q.Server.Do(t, "EXISTS", q.Key) == int64(0) }, "free")
			require.Less(t, time.Since(start), lockspec.DefaultLease/2, "only when its lease had ended")
			q.RequireNothingLeft()
			q.RequireNoLines()
			q.RequireForgotten()
		})
	}
}

// A call that learns at the end of its context that it has the lock, and cannot take it any more, gives it back.
func TestTransferAtTheLastMoment(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t)
	h := q.Take(q.Clients[0])
	ctx, cancel := context.WithCancel(t.Context())
	w := q.Sits(ctx, 0, relock.WithOwner("slow"))
	c := q.Clients[0]
	goOn := locktest.Engine(c).Block(lease.OwnerKey{Lock: locktest.QueueKey, ID: locktest.Engine(c).Identity.Named("slow"), Family: lockspec.ReentrantFamily}) // another attempt of the owner is under way
	locktest.Fresh(h)
	q.Unlock(h)
	cancel()
	require.ErrorIs(t, w.End(), context.Canceled)
	goOn()
	testkit.Eventually(t, lockspec.DefaultLease/3, func() bool { return q.Server.Do(t, "EXISTS", q.Key) == int64(0) }, "free")
	q.RequireNothingLeft()
	q.RequireNoLines()
	q.RequireForgotten()
}

// While the server does not answer, whoever unlocks is told so in time, and the call that the lock was meant for waits on
// until the server does. Nothing comes to be left.
func TestTransferToASilentServer(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	q := locktest.NewTransferBench(t, relock.WithCommandTimeout(timeout))
	h := q.Take(q.Clients[0])
	first, second := q.Sits(t.Context(), 0), q.Sits(t.Context(), 1)
	locktest.Fresh(h)
	q.Server.Pause(t)
	start := time.Now()
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.Less(t, time.Since(start), 4*timeout)
	require.False(t, first.IsOver())
	q.Server.Resume(t)
	q.UnlockEach(first, second)
	q.RequireNothingLeft()
	q.RequireNoLines()
	q.RequireForgotten()
}

// A server that has no memory left, or refuses the request, gives the lock back all the same.
func TestTransferRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ start, end []any }{
		"out of memory": {[]any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		"denied": {
			[]any{"ACL", "SETUSER", "default", "-hset"}, // and so is the next acquire
			[]any{"ACL", "SETUSER", "default", "+hset"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := locktest.NewTransferBench(t)
			h := q.Take(q.Clients[0])
			w := q.Sits(t.Context(), 0)
			locktest.Fresh(h)
			q.Server.Do(t, tt.start[0].(string), tt.start[1:]...)
			q.Unlock(h)
			q.Server.Do(t, tt.end[0].(string), tt.end[1:]...)
			if err := w.End(); name == "denied" && err != nil {
				require.ErrorIs(t, err, relock.ErrDenied) // it has tried meanwhile
			} else {
				require.NoError(t, err)
				require.Zero(t, locktest.LeaseOf(w.Hold).State().Passes)
				q.Unlock(w.Hold)
			}
			q.RequireNothingLeft()
			q.RequireNoLines()
			q.RequireForgotten()
		})
	}
}

// A server that does not know the script is given it in full.
func TestTransferToAServerThatForgetsScripts(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t)
	h := q.Take(q.Clients[0])
	w := q.Sits(t.Context(), 0)
	q.Server.Do(t, "SCRIPT", "FLUSH")
	locktest.Fresh(h)
	q.Unlock(h)
	require.EqualValues(t, 1, locktest.LeaseOf(w.Granted()).State().Passes)
	q.Unlock(w.Hold)
	q.RequireNothingLeft()
}

// A transfer that finds nothing tells the holder of the loss; the call that it was for waits on.
func TestTransferFindsTheLoss(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t)
	h := q.Take(q.Clients[0])
	first, second := q.Sits(t.Context(), 0), q.Sits(t.Context(), 1)
	q.Server.Do(t, "DEL", q.Key)
	locktest.Fresh(h)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	q.UnlockEach(first, second)
	q.RequireNothingLeft()
	q.RequireNoLines()
	q.RequireForgotten()
}

// So it does where the connection breaks under the first request: had the lock gone to the next call by that, the second one would say so.
func TestTransferFindsTheLossBehindABreak(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewTransferBenchBehind(t)
	const poll = 5 * time.Second // a poll would find the lock free, and wake the call
	h := q.Take(q.Clients[0], relock.WithPollInterval(poll))
	w := q.Sits(t.Context(), 0, relock.WithPollInterval(poll))
	q.AwaitHeard(q.Clients[0]) // by the poll that follows the subscription
	q.Server.Do(t, "DEL", q.Key)
	locktest.Fresh(h)
	proxy.On(locktest.TransferOnly, 1, faults.CutBefore)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	require.Equal(t, 2, proxy.Count(locktest.TransferOnly))
	q.Unlock(w.Granted())
	q.RequireNothingLeft(poll)
	q.RequireNoLines()
	q.RequireForgotten()
}

// The owner of the call may have a hold that was lost and is not unlocked: the call is told so, and the lock is free.
func TestTransferToTheOwnerOfALostHold(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t)
	c := q.Clients[0]
	h := q.Take(c)
	w := q.Sits(t.Context(), 0, relock.WithOwner("late"))
	owner := lease.OwnerKey{Lock: locktest.QueueKey, ID: locktest.Engine(c).Identity.Named("late"), Family: lockspec.ReentrantFamily}
	remove := locktest.Engine(c).PutLost(owner, &lease.Grant{Key: locktest.QueueKey, Protocol: locktest.LeaseOf(h).Protocol(), Sent: time.Now(), Settings: locktest.Level(h).Settings()}, relock.ErrLockLost)
	locktest.Fresh(h)
	q.Unlock(h)
	require.ErrorIs(t, w.End(), relock.ErrLockLost)
	remove()
	q.RequireNothingLeft()
	q.RequireNoLines()
	q.RequireForgotten()
}
