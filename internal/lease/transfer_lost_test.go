package lease_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// takeToTransfer returns a hold of a reentrant lock, which the first of two
// clients has. The test runs beside others.
func takeToTransfer(t *testing.T, opts ...relock.ClientOption) (*locktest.QueueBench, relock.Hold) {
	t.Helper()
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.ReentrantUnfair, 2, opts...)
	return q, q.Take(q.Clients[0])
}

// transferFreed waits until the key is free, long before its lease ends.
func transferFreed(q *locktest.QueueBench) {
	q.Helper()
	testkit.Eventually(q, lockspec.DefaultLease/3,
		func() bool { return q.Server.Do(q, "EXISTS", q.Key) == int64(0) }, "free")
	q.RequireIdle()
}

// A call whose context is cancelled while the lock is on its way to it ends
// immediately, and the lock goes to the next one.
func TestTransferToACallThatLeaves(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 1, 2} {
		t.Run(strconv.Itoa(more)+" more", func(t *testing.T) {
			t.Parallel()
			q, proxy := locktest.NewQueueBenchBehind(t, locktest.ReentrantUnfair)
			h := q.Take(q.Clients[0])
			ctx, cancel := context.WithCancel(t.Context())
			w := q.WaitLocally(ctx, 0)
			var others []*locktest.Waiting
			for n := range more {
				others = append(others, q.WaitLocally(t.Context(), n+1))
			}
			const late = time.Second // less than a transfer waits for its answer
			proxy.On(locktest.TransferOnly, 1, faults.Delay(late))
			neverStale(h)
			unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
			require.True(t, proxy.Await(locktest.TransferOnly, 1, testkit.Patience))
			watch := testkit.NewStopwatch(t)
			cancel()
			locktest.RequireIs(t, w.End(), context.Canceled, relock.ErrLockAcquiredByOthers)
			watch.Within(late/2, "it waits for the transfer")
			require.NoError(t, testkit.ResultWithin(t, unlocked, testkit.Patience))
			for _, other := range others {
				q.Unlock(other.Granted())
			}
			transferFreed(q)
			watch.Within(lockspec.DefaultLease/2, "only when its lease had ended")
		})
	}
}

// ownerKey returns the key of the first client's owner with this name.
func ownerKey(q *locktest.QueueBench, name string) lease.OwnerKey {
	return lease.OwnerKey{
		Lock: locktest.QueueKey, ID: locktest.Engine(q.Clients[0]).Identity.Named(name), Family: lockspec.ReentrantFamily,
	}
}

// A call that learns at the end of its context that it has the lock, and cannot
// take it any more, releases it.
func TestTransferAtTheLastMoment(t *testing.T) {
	q, h := takeToTransfer(t)
	ctx, cancel := context.WithCancel(t.Context())
	w := q.WaitLocally(relock.ContextWithOwner(ctx, "slow"), 0)
	goOn := locktest.Engine(q.Clients[0]).Block(ownerKey(q, "slow")) // another attempt of the owner is under way
	q.UnlockFresh(h)
	cancel()
	require.ErrorIs(t, w.End(), context.Canceled)
	goOn()
	transferFreed(q)
}

// The owner of the call may have a hold that was lost and is not unlocked. The
// call returns that loss, and the lock is free.
func TestTransferToTheOwnerOfALostHold(t *testing.T) {
	q, h := takeToTransfer(t)
	w := q.WaitLocally(locktest.As(t, "late"), 0)
	lost := &lease.Grant{
		Key: locktest.QueueKey, Protocol: leaseOf(h).Protocol(), Sent: time.Now(), Settings: locktest.Level(h).Settings(),
	}
	remove := locktest.Engine(q.Clients[0]).PutLost(ownerKey(q, "late"), lost, relock.ErrLockLost)
	q.UnlockFresh(h)
	require.ErrorIs(t, w.End(), relock.ErrLockLost)
	remove()
	q.RequireIdle()
}

// While the server does not answer, Unlock returns in time that it is
// unconfirmed. The call that the lock was meant for waits until the server
// answers. Nothing is left.
func TestTransferToASilentServer(t *testing.T) {
	const timeout = 2 * time.Second
	q, h := takeToTransfer(t, relock.WithCommandTimeout(timeout))
	first, second := q.WaitLocally(t.Context(), 0), q.WaitLocally(t.Context(), 1)
	neverStale(h)
	q.Server.Pause(t)
	watch := testkit.NewStopwatch(t)
	err := h.Unlock(t.Context())
	watch.Within(2 * timeout)
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.False(t, first.HasEnded())
	q.Server.Resume(t)
	q.UnlockEach(first, second)
	q.RequireIdle()
}

// A server that has no memory left, or refuses the request, releases the lock
// all the same. One that does not know the script is sent it in full.
func TestTransferRefused(t *testing.T) {
	t.Parallel()
	type refusal struct {
		start, end  []any
		transferred bool
	}
	testkit.Each(t, map[string]refusal{
		"out of memory": {start: []any{"CONFIG", "SET", "maxmemory", "1"}, end: []any{"CONFIG", "SET", "maxmemory", "0"}},
		"denied": {
			start: []any{"ACL", "SETUSER", "default", "-hset"}, end: []any{"ACL", "SETUSER", "default", "+hset"},
		}, // and so is the next acquire
		"unknown script": {start: []any{"SCRIPT", "FLUSH"}, end: []any{"PING"}, transferred: true},
	}, func(t *testing.T, name string, tt refusal) {
		q := locktest.NewQueueBench(t, locktest.ReentrantUnfair, 2)
		h := q.Take(q.Clients[0])
		w := q.WaitLocally(t.Context(), 0)
		q.Server.Do(t, tt.start[0].(string), tt.start[1:]...)
		q.UnlockFresh(h)
		q.Server.Do(t, tt.end[0].(string), tt.end[1:]...)
		if err := w.End(); name == "denied" && err != nil {
			require.ErrorIs(t, err, relock.ErrDenied) // it has tried meanwhile
		} else {
			require.NoError(t, err)
			require.Equal(t, tt.transferred, passes(w.Hold) == 1)
			q.Unlock(w.Hold)
		}
		q.RequireIdle()
	})
}

// A transfer that finds nothing reports the loss to the holder. The calls that
// wait get the lock. The same is true if the connection breaks under the first
// request: had that given the lock to the next call, the second request would
// say so.
func TestTransferFindsTheLoss(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]int{"": 1, "behind a break": 2}, func(t *testing.T, _ string, requests int) {
		q, proxy := locktest.NewQueueBenchBehind(t, locktest.ReentrantUnfair)
		poll := relock.WithPollInterval(6 * time.Second) // a poll would find the lock free, and wake the call
		h := q.Take(q.Clients[0], poll)
		first, second := q.WaitLocally(t.Context(), 0, poll), q.WaitLocally(t.Context(), 1, poll)
		q.AwaitSubscribed(q.Clients[0]) // by the poll that follows the subscription
		q.Server.Do(t, "DEL", q.Key)
		neverStale(h)
		if requests == 2 {
			proxy.On(locktest.TransferOnly, 1, faults.CutBefore)
		}
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
		require.Equal(t, requests, proxy.Count(locktest.TransferOnly))
		q.UnlockEach(first, second)
		q.RequireIdle(6 * time.Second)
	})
}

// A refused transfer is followed by a release, which knows more of the hold: an
// earlier release may have kept it. The lock does not stay until it expires.
func TestTransferRefusedReleases(t *testing.T) {
	q, h := takeToTransfer(t)
	w := q.WaitLocally(t.Context(), 0)
	q.Server.Do(t, "HSET", q.Key, "hold", "kept:"+holdOf(h))
	neverStale(h)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	q.Unlock(w.Granted())
	q.RequireIdle()
}

// Close ends a transfer in the middle.
func TestCloseDuringATransfer(t *testing.T) {
	t.Parallel()
	delayed := map[string]faults.Action{"request": faults.DelayRequest(time.Second), "answer": faults.Delay(time.Second)}
	testkit.Each(t, delayed, func(t *testing.T, _ string, action faults.Action) {
		q, proxy := locktest.NewQueueBenchBehind(t, locktest.ReentrantUnfair)
		c := q.Clients[0]
		h := q.Take(c)
		first, second := q.WaitLocally(context.Background(), 0), q.WaitLocally(context.Background(), 1)
		proxy.On(locktest.TransferOnly, 1, action)
		neverStale(h)
		unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
		require.True(t, proxy.Await(locktest.TransferOnly, 1, testkit.Patience))
		require.NoError(t, c.Close())
		require.ErrorIs(t, first.End(), relock.ErrClosed)
		require.ErrorIs(t, second.End(), relock.ErrClosed)
		require.ErrorIs(t, testkit.ResultWithin(t, unlocked, testkit.Patience), relock.ErrUnconfirmed)
		require.False(t, locktest.Engine(c).Queue.Uses(q.Key))
		require.Zero(t, locktest.Engine(c).State().Leases)
		require.Zero(t, locktest.Engine(c).State().Owners)
	})
}

// Close also releases a lock that was handed off to a call that has not taken
// it yet.
func TestReleaseOnCloseOfATransfer(t *testing.T) {
	q, h := takeToTransfer(t, relock.WithReleaseOnClose())
	c := q.Clients[0]
	first := q.WaitLocally(relock.ContextWithOwner(context.Background(), "slow"), 0)
	goOn := locktest.Engine(c).Block(ownerKey(q, "slow"))
	q.UnlockFresh(h)
	require.NoError(t, c.Close())
	require.Equal(t, int64(0), q.Server.Do(t, "EXISTS", q.Key))
	goOn()
	require.ErrorIs(t, first.End(), relock.ErrClosed)
}
