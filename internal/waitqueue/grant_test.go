package waitqueue_test

import (
	"context"
	"strings"
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

var plainModes = []mode{locktest.PlainUnfair, locktest.PlainFair}

const (
	reserved   = "relock/1|w|"
	claimLease = 8 * time.Second // with slowPolls
)

// slowPolls leave a busy machine 2 s from the enqueue to a message that
// grants. By default it has 0.3 s.
var slowPolls = relock.WithPollInterval(claimLease / 4)

// grant is a lock that a message can grant to its waiter, whose claims meet a
// fault.
type grant struct {
	*bench

	waiter *relock.Client
	proxy  *faults.Proxy // before the waiter
	held   relock.Hold   // by another client
	waits  *waiting
}

func newGrant(t testing.TB, m mode, claims faults.Action, opts ...relock.ClientOption) *grant {
	t.Helper()
	q := &grant{bench: locktest.NewQueueBench(t, m, 1)}
	q.waiter, q.proxy = q.Behind(opts...)
	q.proxy.On(faults.Script(script.Claim.SHA), faults.Every, claims)
	q.held = q.Take(q.Clients[0])
	q.waits = q.WaitSubscribed(0, q.waiter, slowPolls)
	return q
}

// granted is a new grant after the hand-off, and the hold of its waiter.
func granted(t testing.TB, m mode, claims faults.Action, opts ...relock.ClientOption) (*grant, relock.Hold) {
	t.Helper()
	q := newGrant(t, m, claims, opts...)
	h, _ := q.HandOff(q.held, q.waits)
	return q, h
}

// requireLost waits for the end of a hold, and requires that its key is
// reserved while it is valid.
func (q *grant) requireLost(h relock.Hold) {
	q.Helper()
	for ; h.Err() == nil; time.Sleep(5 * time.Millisecond) {
		value := q.Value()
		require.True(q, strings.HasPrefix(value, reserved) || h.Err() != nil, "valid, but the key is %q", value)
	}
	require.ErrorIs(q, h.Err(), relock.ErrLockLost)
	require.ErrorIs(q, h.Unlock(context.Background()), relock.ErrLockLost)
	q.RequireNothingLeft(claimLease / 4)
}

// The message is the grant: the lock is only reserved when Lock returns. The
// claim makes it the hold, with the whole lease.
func TestMessageIsTheGrant(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		claims := make(chan struct{})
		q, h := granted(t, m, faults.DelayRequestUntil(claims))
		require.True(t, strings.HasPrefix(q.Value(), reserved), "%s", q.Snapshot())
		require.Less(t, time.Until(h.ValidUntil()), claimLease)
		close(claims)
		testkit.Eventually(t, testkit.Patience, func() bool { return time.Until(h.ValidUntil()) > claimLease },
			"the claim is answered")
		require.False(t, strings.HasPrefix(q.Value(), reserved), "%s", q.Snapshot())
		q.UnlockLast(h, claimLease/4)
	})
}

// A fixed lease is claimed too, and lasts as long as it should.
func TestFixedLeaseIsGrantedByMessage(t *testing.T) {
	q := locktest.NewQueueBench(t, plainModes[0], 2)
	h := q.Take(q.Clients[0])
	w := q.WaitSubscribed(0, q.Clients[1], relock.WithExpiry(time.Minute), slowPolls)
	h, _ = q.HandOff(h, w)
	testkit.Eventually(t, testkit.Patience, func() bool { return time.Until(h.ValidUntil()) > time.Minute/2 },
		"the claim is answered")
	q.UnlockLast(h, claimLease/4)
}

// A waiter that has waited for a quarter of a claim lease claims, and waits for
// the answer: the message does not say when the lock was reserved.
func TestLongWaitIsNotGrantedByMessage(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		q := newGrant(t, m, faults.DelayRequest(200*time.Millisecond))
		time.Sleep(claimLease / 4) // which is what counts
		h, took := q.HandOff(q.held, q.waits)
		require.GreaterOrEqual(t, took, 200*time.Millisecond)
		require.Greater(t, time.Until(h.ValidUntil()), claimLease)
		q.UnlockLast(h, claimLease/4)
	})
}

// Without an answer to the claim, the hold ends before the reservation can.
func TestUnansweredClaimEndsTheHold(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		q, h := granted(t, m, faults.DropRequest)
		q.requireLost(h)
	})
}

// A claim does not wait behind a renewal whose connection has gone silent.
func TestClaimPassesASilentRenewal(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		q := newGrant(t, m, faults.Delay(0), relock.WithCommandTimeout(time.Minute))
		other := locktest.Take(t, relock.NewRedisLock("other", q.waiter).TryAcquire)
		renewal := faults.Script(script.Renew.SHA)
		q.proxy.On(renewal, 1, faults.DropRequest)
		locktest.RenewNow(other)
		require.True(t, q.proxy.Await(renewal, 1, testkit.Patience))
		h, _ := q.HandOff(q.held, q.waits)
		testkit.Eventually(t, testkit.Patience,
			func() bool { return h.Err() != nil || time.Until(h.ValidUntil()) > claimLease }, "the claim is answered")
		q.Unlock(h)
		require.NoError(t, other.Unlock(context.Background()))
		q.RequireNothingLeft(claimLease / 4)
	})
}

// A message that comes twice, before or after the answer to the claim, ends
// neither the reservation nor the hold.
func TestDoubledGrant(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		q, h := granted(t, m, faults.DelayRequest(200*time.Millisecond))
		name := strings.TrimPrefix(q.Value(), reserved)
		for time.Until(h.ValidUntil()) < claimLease {
			q.Server.Do(t, "PUBLISH", channel(q.waiter), name+" "+q.Key)
			require.NotEmpty(t, q.Value(), "the reservation was ended under a valid hold")
		}
		q.Server.Do(t, "PUBLISH", channel(q.waiter), name+" "+q.Key)
		time.Sleep(100 * time.Millisecond) // for what should not happen
		require.NoError(t, h.Err())
		q.UnlockLast(h, claimLease/4)
	})
}

// A name without the right nonce, or for another key, grants nothing.
func TestForgedGrant(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		q := newGrant(t, m, faults.Delay(0))
		name := q.NewestEntry()
		plain := name[:strings.LastIndexByte(name, ':')]
		for _, text := range []string{
			plain, plain + ":", plain + ":" + strings.Repeat("0", 16), name[:len(name)-1], name + "0",
		} {
			q.Server.Do(t, "PUBLISH", channel(q.waiter), text+" "+q.Key)
		}
		q.Server.Do(t, "PUBLISH", channel(q.waiter), name+" "+locktest.Prefix(q.waiter)+"{other}")
		time.Sleep(100 * time.Millisecond) // for what should not happen
		require.False(t, q.waits.HasEnded(), "granted while another one has it: %v", q.waits.Err)
		h, _ := q.HandOff(q.held, q.waits)
		q.UnlockLast(h, claimLease/4)
	})
}

// Unlock before the answer to the claim waits for it. If it does not come, the
// release names the reservation too.
func TestUnlockBeforeTheClaim(t *testing.T) {
	locktest.EachCase(t, plainModes, map[string]faults.Action{
		"late": faults.DelayRequest(100 * time.Millisecond), "lost": faults.DropRequest, "answer lost": faults.DropAnswer,
		"doubled": faults.Double,
	}, func(t testing.TB, m mode, claims faults.Action) {
		q, h := granted(t, m, claims)
		q.Unlock(h)
		next := q.Wait(q.Context(), q.Clients[0])
		q.UnlockLast(next.Granted(), claimLease/4)
	})
}

// If the reservation is lost with the data, the claim's answer ends the hold:
// not after a third of the lease, but within a round trip.
func TestLostReservationEndsTheHold(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		q, h := granted(t, m, faults.DelayRequest(100*time.Millisecond))
		watch := testkit.NewStopwatch(t)
		q.Server.Do(t, "FLUSHALL")
		other := q.Take(q.Clients[0])
		testkit.Eventually(t, testkit.Patience, func() bool { return h.Err() != nil }, "the loss is noticed")
		watch.Within(time.Second)
		require.ErrorIs(t, h.Unlock(context.Background()), relock.ErrLockLost)
		require.NoError(t, other.Err())
		q.UnlockLast(other, claimLease/4)
	})
}

// Extend and Detach need the hold at the server: they wait for the claim.
func TestExtendWaitsForTheClaim(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		q, h := granted(t, m, faults.DelayRequest(100*time.Millisecond))
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		require.Greater(t, time.Until(h.ValidUntil()), time.Minute/2)
		q.UnlockLast(h, claimLease/4)
	})
}

// A call that waits for the claim ends with its context, and with its reason.
// The hold stays as it was.
func TestExtendIsCancelledBeforeTheClaim(t *testing.T) {
	claims := make(chan struct{})
	q, h := granted(t, plainModes[0], faults.DelayRequestUntil(claims))
	for _, request := range []func(context.Context) error{
		func(ctx context.Context) error { return h.Extend(ctx, time.Minute) },
		func(ctx context.Context) error { _, err := q.Clients[0].Detach(ctx, h, time.Minute); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.ErrorIs(t, request(ctx), context.DeadlineExceeded)
		cancel()
	}
	require.NoError(t, h.Err())
	close(claims)
	q.UnlockLast(h, claimLease/4)
}

// A hold that was granted by a message ends with its client, which releases the
// reservation if it should.
func TestCloseBeforeTheClaim(t *testing.T) {
	q, h := granted(t, plainModes[0], faults.DropRequest, relock.WithReleaseOnClose())
	require.NoError(t, q.waiter.Close())
	require.ErrorIs(t, h.Err(), relock.ErrClosed)
	q.UnlockLast(q.Take(q.Clients[0]), claimLease/4)
}

// A message that comes late grants the lock for no longer than the reservation
// lasts.
func TestLateMessage(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		q := newGrant(t, m, faults.DropRequest)
		q.proxy.Stall()
		q.Unlock(q.held)
		time.Sleep(claimLease / 16) // of the message
		q.proxy.Resume()
		q.requireLost(q.waits.Granted())
	})
}

// The holder of a grant by message learns why its hold was ended, from the
// message or from the refusal of its claim.
func TestForceUnlockBeforeTheClaim(t *testing.T) {
	q, h := granted(t, plainModes[0], faults.DelayRequest(200*time.Millisecond))
	require.NoError(t, q.Clients[0].ForceUnlock(t.Context(), "lock", "why"))
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrForced)
	require.ErrorContains(t, h.Unlock(context.Background()), "why")
	q.RequireNothingLeft(claimLease / 4)
}

// A poll that was sent before the message, and answered after it, does not
// cancel the entry: its claim is not answered yet.
func TestPollThatCrossesAGrant(t *testing.T) {
	locktest.EachMode(t, plainModes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 1)
		waiter, proxy := q.Behind()
		poll := faults.Script(script.Poll.SHA)
		// far below its limit
		proxy.On(faults.Script(script.Claim.SHA), faults.Every, faults.DelayRequest(200*time.Millisecond))
		proxy.On(poll, 1, faults.Delay(150*time.Millisecond))
		h := q.Take(q.Clients[0])
		w := q.WaitNext(context.Background(), 0, waiter, slowPolls)
		require.True(t, proxy.Await(poll, 1, testkit.Patience))
		testkit.Eventually(t, testkit.Patience, func() bool {
			return strings.HasSuffix(q.Snapshot(), ":1") || strings.Contains(q.Snapshot(), ":1 ")
		}, "the poll is executed")
		h, _ = q.HandOff(h, w)
		for time.Until(h.ValidUntil()) < claimLease {
			require.NoError(t, h.Err())
			require.NotEmpty(t, q.Value(), "the reservation was ended under a valid hold")
		}
		q.UnlockLast(h, claimLease/4)
	})
}

// An Unlock before the claim releases the reservation. A message or a poll that
// names it meanwhile does not cancel it: the release would find nothing, and
// report a loss.
func TestDoubledGrantDuringUnlock(t *testing.T) {
	t.Parallel()
	q, h := granted(t, plainModes[0], faults.DropRequest)
	released := q.proxy.On(faults.Script(script.Release.SHA), 1, faults.DelayRequest(300*time.Millisecond))
	name := strings.TrimPrefix(q.Value(), reserved)
	unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
	testkit.Eventually(t, testkit.Patience, func() bool {
		q.Server.Do(t, "PUBLISH", channel(q.waiter), name+" "+q.Key)
		_, done := testkit.Await(released, 0)
		return done
	}, "the release is answered")
	require.NoError(t, testkit.ResultWithin(t, unlocked, testkit.Patience))
	q.RequireNothingLeft(claimLease / 4)
}

// A hold whose claim was refused is ended by one request for the reason, not by
// one after the other until that is too late.
func TestRefusedClaimAsksForTheReasonOnce(t *testing.T) {
	q, h := granted(t, plainModes[0], faults.DelayRequest(100*time.Millisecond))
	watch := testkit.NewStopwatch(t)
	q.Server.Do(t, "DEL", q.Key)
	testkit.Eventually(t, testkit.Patience, func() bool { return h.Err() != nil }, "the loss is noticed")
	watch.Within(time.Second)
	require.Equal(t, 1, q.proxy.Count(faults.Script(script.Notice.SHA)))
	require.ErrorIs(t, h.Unlock(context.Background()), relock.ErrLockLost)
	q.RequireNothingLeft(claimLease / 4)
}

// Without memory at the server, the claim completes the hand-off: the hold is
// not lost.
func TestClaimWithoutMemory(t *testing.T) {
	s := redistest.Start(t)
	for _, m := range plainModes {
		q := locktest.NewQueueBenchOn(t, s, m, 2)
		h := q.Take(q.Clients[0])
		w := q.WaitSubscribed(0, q.Clients[1], slowPolls)
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		h, _ = q.HandOff(h, w)
		testkit.Eventually(t, testkit.Patience, func() bool { return time.Until(h.ValidUntil()) > claimLease },
			"the claim is answered")
		s.Do(t, "CONFIG", "SET", "maxmemory", "0")
		q.UnlockLast(h, claimLease/4)
	}
}

// While a slot is half moved, the claim names the lock's key alone: the queue
// that the hand-off has emptied is missing at the old server. The hold is not
// lost, however long the move takes: the key has the whole lease.
func TestClaimWhileTheSlotMoves(t *testing.T) {
	onTwoMasters(t, plainModes, 2, func(q *bench, c *redistest.Cluster) {
		h := q.Take(q.Clients[0])
		w := q.WaitSubscribed(0, q.Clients[1], slowPolls)
		move := c.BeginMove(t, c.SlotOf(t, q.Key), other(q, c))
		h, _ = q.HandOff(h, w)
		testkit.Eventually(t, testkit.Patience, func() bool { return time.Until(h.ValidUntil()) > claimLease },
			"the claim is answered")
		require.Greater(t, q.Server.Do(t, "PTTL", q.Key), claimLease.Milliseconds())
		move.Finish(t)
		q.Server = other(q, c)
		require.NoError(t, h.Err())
		q.UnlockLast(h, claimLease/4)
	})
}
