package relock

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/testkit"
)

// A call whose context ends while the lock is on its way to it ends at once, and the lock goes to the next one.
func TestTransferToACallThatLeaves(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 1, 2} {
		t.Run(strconv.Itoa(more)+" more", func(t *testing.T) {
			t.Parallel()
			q, proxy := newTransferBenchBehind(t)
			h := q.take(q.clients[0])
			ctx, cancel := context.WithCancel(t.Context())
			w := q.sits(ctx, 0)
			var others []*waiting
			for n := range more {
				others = append(others, q.sits(t.Context(), n+1))
			}
			const late = time.Second
			proxy.On(transferOnly, 1, faults.Delay(late))
			fresh(h)
			unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
			require.True(t, proxy.Await(transferOnly, 1, testkit.Patience))
			start := time.Now()
			cancel()
			require.ErrorIs(t, w.end(), context.Canceled)
			require.ErrorIs(t, w.err, ErrLockAcquiredByOthers)
			require.Less(t, time.Since(start), late/2, "it waits for the transfer")
			require.NoError(t, testkit.ResultWithin(t, unlocked, testkit.Patience))
			for _, other := range others {
				q.unlock(other.granted())
			}
			testkit.Eventually(t, lockspec.DefaultLease/3, func() bool { return q.server.Do(t, "EXISTS", q.key) == int64(0) }, "free")
			require.Less(t, time.Since(start), lockspec.DefaultLease/2, "only when its lease had ended")
			q.requireNothingLeft()
			q.requireNoLines()
			q.requireForgotten()
		})
	}
}

// A call that learns at the end of its context that it has the lock, and cannot take it any more, gives it back.
func TestTransferAtTheLastMoment(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	h := q.take(q.clients[0])
	ctx, cancel := context.WithCancel(t.Context())
	w := q.sits(ContextWithOwner(ctx, "slow"), 0)
	c := q.clients[0]
	goOn := c.engine.Block(lease.OwnerKey{Lock: queueKey, ID: c.engine.Identity.Named("slow"), Family: lockspec.ReentrantFamily}) // another attempt of the owner is under way
	fresh(h)
	q.unlock(h)
	cancel()
	require.ErrorIs(t, w.end(), context.Canceled)
	goOn()
	testkit.Eventually(t, lockspec.DefaultLease/3, func() bool { return q.server.Do(t, "EXISTS", q.key) == int64(0) }, "free")
	q.requireNothingLeft()
	q.requireNoLines()
	q.requireForgotten()
}

// While the server does not answer, whoever unlocks is told so in time, and the call that the lock was meant for waits on
// until the server does. Nothing comes to be left.
func TestTransferToASilentServer(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	q := newTransferBench(t, WithCommandTimeout(timeout))
	h := q.take(q.clients[0])
	first, second := q.sits(t.Context(), 0), q.sits(t.Context(), 1)
	fresh(h)
	q.server.Pause(t)
	start := time.Now()
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, ErrUnconfirmed)
	require.Less(t, time.Since(start), 4*timeout)
	require.False(t, first.isOver())
	q.server.Resume(t)
	q.unlockEach(first, second)
	q.requireNothingLeft()
	q.requireNoLines()
	q.requireForgotten()
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
			q := newTransferBench(t)
			h := q.take(q.clients[0])
			w := q.sits(t.Context(), 0)
			fresh(h)
			q.server.Do(t, tt.start[0].(string), tt.start[1:]...)
			q.unlock(h)
			q.server.Do(t, tt.end[0].(string), tt.end[1:]...)
			if err := w.end(); name == "denied" && err != nil {
				require.ErrorIs(t, err, ErrDenied) // it has tried meanwhile
			} else {
				require.NoError(t, err)
				require.Zero(t, leaseOf(w.hold).State().Passes)
				q.unlock(w.hold)
			}
			q.requireNothingLeft()
			q.requireNoLines()
			q.requireForgotten()
		})
	}
}

// A server that does not know the script is given it in full.
func TestTransferToAServerThatForgetsScripts(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	h := q.take(q.clients[0])
	w := q.sits(t.Context(), 0)
	q.server.Do(t, "SCRIPT", "FLUSH")
	fresh(h)
	q.unlock(h)
	require.EqualValues(t, 1, leaseOf(w.granted()).State().Passes)
	q.unlock(w.hold)
	q.requireNothingLeft()
}

// A transfer that finds nothing tells the holder of the loss; the call that it was for waits on.
func TestTransferFindsTheLoss(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	h := q.take(q.clients[0])
	first, second := q.sits(t.Context(), 0), q.sits(t.Context(), 1)
	q.server.Do(t, "DEL", q.key)
	fresh(h)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
	q.unlockEach(first, second)
	q.requireNothingLeft()
	q.requireNoLines()
	q.requireForgotten()
}

// So it does where the connection breaks under the first request: had the lock gone to the next call by that, the second one would say so.
func TestTransferFindsTheLossBehindABreak(t *testing.T) {
	t.Parallel()
	q, proxy := newTransferBenchBehind(t)
	const poll = 5 * time.Second // a poll would find the lock free, and wake the call
	h := q.take(q.clients[0], WithPollInterval(poll))
	w := q.sits(t.Context(), 0, WithPollInterval(poll))
	q.awaitHeard(q.clients[0]) // by the poll that follows the subscription
	q.server.Do(t, "DEL", q.key)
	fresh(h)
	proxy.On(transferOnly, 1, faults.CutBefore)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
	require.Equal(t, 2, proxy.Count(transferOnly))
	q.unlock(w.granted())
	q.requireNothingLeft(poll)
	q.requireNoLines()
	q.requireForgotten()
}

// The owner of the call may have a hold that was lost and is not unlocked: the call is told so, and the lock is free.
func TestTransferToTheOwnerOfALostHold(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	c := q.clients[0]
	h := q.take(c)
	w := q.sits(as(t, "late"), 0)
	owner := lease.OwnerKey{Lock: queueKey, ID: c.engine.Identity.Named("late"), Family: lockspec.ReentrantFamily}
	remove := c.engine.PutLost(owner, &lease.Grant{Key: queueKey, Protocol: leaseOf(h).Protocol(), Sent: time.Now(), Settings: h.(hold).level.Settings()}, ErrLockLost)
	fresh(h)
	q.unlock(h)
	require.ErrorIs(t, w.end(), ErrLockLost)
	remove()
	q.requireNothingLeft()
	q.requireNoLines()
	q.requireForgotten()
}
