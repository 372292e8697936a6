package waitqueue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// A release wakes the waiter by a message: polls would take most of a second.
func TestWaiterIsWokenByTheRelease(t *testing.T) {
	modes := append([]mode{{Kind: "RWLock", Fair: true}}, locktest.QueueModes...)
	locktest.EachCase(t, modes, map[string]int{
		"the same client": 1, "another client": 2,
	}, func(t testing.TB, m mode, clients int) {
		q := locktest.NewQueueBench(t, m, clients)
		waiter := q.Clients[clients-1]
		requireMedian(t, handOffs(q, 15, q.Clients[0], waiter, locktest.SlowPoll, func() {
			q.AwaitSubscribed(waiter)
			time.Sleep(rand.N(30 * time.Millisecond)) // young waiters are only woken, for others it is reserved
		}), locktest.NotifyLimit)
	})
}

// Two clients that always want the lock take turns, by messages. For a fair
// lock, they do so strictly.
func TestHandOffBetweenTwoClients(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		const turns = 25 // of each client
		q := locktest.NewQueueBench(t, m, 2)
		var order []int // guarded by the lock, like all that follow
		var took []time.Duration
		var unlocked *testkit.Stopwatch
		left := []int{turns, turns}
		var results []<-chan error
		for i, c := range q.Clients {
			lock := q.Lock(c, patient)
			results = append(results, async(q, lock, turns, func() {
				if order = append(order, i); len(order) > 1 {
					took = append(took, unlocked.Net())
				}
				left[i]--
				testkit.Eventually(t, testkit.Patience, func() bool { return left[1-i] == 0 || q.QueueLength() > 0 },
					"the other one waits")
				unlocked = testkit.NewStopwatch(t)
			}))
		}
		testkit.AllWithin(t, results, testkit.Patience)
		require.Len(t, order, 2*turns)
		q.RequireNothingLeft()
		requireMedian(t, took, locktest.NotifyLimit)
		for n := 1; m.Fair && n < len(order); n++ {
			require.NotEqual(t, order[n-1], order[n], "turn %d", n)
		}
	})
}

// A client does not know an entry that a late poll has put back. It cancels it
// immediately: the next waiter does not wait for the end of the reservation.
func TestUnknownEntryGivesItsTurnUp(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		waiter := q.Clients[1]
		entry := fmt.Sprintf("%s:999:%s:1250", locktest.Engine(waiter).Identity.ID, letters(m))
		requireMedian(t, handOffs(q, 5, q.Clients[0], waiter, lockspec.DefaultPollInterval, func() {
			q.AwaitSubscribed(waiter)
			q.Server.Do(t, "ZADD", q.Key+":q", 1, entry)
		}), time.Second/2) // a reservation lasts for 1.25s
	})
}

// A release whose answer is lost is sent again. Meanwhile the lock is reserved
// for the next waiter. That is no loss.
func TestReleaseIsSentTwice(t *testing.T) {
	locktest.EachCase(t, locktest.QueueModes, map[string]faults.Action{
		"cut after": faults.CutAfter, "cut in the answer": faults.CutInAnswer,
	}, func(t testing.TB, m mode, action faults.Action) {
		q := locktest.NewQueueBench(t, m, 1)
		holder, proxy := q.Behind()
		waiter, waiterProxy := q.Behind()
		// it stays reserved
		waiterProxy.On(faults.Script(script.Claim.SHA), faults.Every, faults.DelayRequest(locktest.AnswerLimit/4))
		release := func(args []string) bool {
			return faults.Script(script.Release.SHA)(args) || faults.Script(script.ReentrantRelease.SHA)(args)
		}
		h := q.Take(holder)
		w := q.WaitNext(context.Background(), 0, waiter)
		proxy.On(release, 1, action)
		require.NoError(t, h.Unlock(t.Context()))
		require.GreaterOrEqual(t, proxy.Count(release), 2, "the answer was lost")
		q.UnlockLast(w.Granted())
	})
}

// Whatever comes over a client's channel, no active hold is released, no waiter
// is lost, and nobody gets what is not theirs.
func TestForgedMessages(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		c, other := q.Clients[0], q.Clients[1]
		h := q.Take(other)
		first := q.WaitSubscribed(0, c)
		h, _ = q.HandOff(h, first)
		second := q.WaitNext(context.Background(), 0, c)
		third := q.WaitNext(context.Background(), 1, other)
		testkit.Eventually(t, testkit.Patience, func() bool { return time.Until(h.ValidUntil()) > claimLease },
			"the claim is answered")
		before := q.Server.Content(t, q.Key)
		mine, suffix, elsewhere := locktest.Engine(c).Identity.ID, ":"+letters(m)+":1250", " "+locktest.Prefix(c)+"{other}"
		granted, waits := mine+":1"+suffix, mine+":2"+suffix // anybody may read these names
		for _, text := range []string{
			"", " ", "  ", "garbage", "a b", "a b c", strings.Repeat("x", 1<<20), "\r\n*1\r\n", "\x00 \xff",
			granted + elsewhere, waits + elsewhere, granted + " " + q.Key + ":q", granted + " elsewhere:{x}",
		} {
			q.Server.Do(t, "PUBLISH", channel(c), text)
		}
		for _, name := range []string{
			granted, granted, waits, waits, mine + ":1", mine + ":2", // holds
			mine + ":999" + suffix, mine + ":999:xx:1", mine + "::::", mine + ":", // never drawn
			locktest.Engine(other).Identity.ID + ":1" + suffix, q.NewestEntry(),
		} {
			q.Server.Do(t, "PUBLISH", channel(c), name+" "+q.Key)
		}
		time.Sleep(300 * time.Millisecond) // for what should not happen
		require.NoError(t, h.Err())
		require.False(t, second.HasEnded(), "granted while another one has it: %v", second.Err)
		require.False(t, third.HasEnded())
		require.Equal(t, before, q.Server.Content(t, q.Key), "the hold was touched")
		require.Equal(t, 2, q.QueueLength(), "%s", q.Snapshot())
		require.True(t, locktest.Engine(c).Queue.State().Subscribed)
		h, _ = q.HandOff(h, second)
		h, _ = q.HandOff(h, third)
		q.UnlockLast(h)
	})
}

// forge publishes many wake-ups over one connection, as fast as the server
// answers, and awaits two scripts of a server. On a busy machine, the waiter
// may read the first message after the last one was published. forge returns
// how many scripts the server ran, and how many attempts the pause allows.
func forge(
	t testing.TB, at, counted *redistest.Server, c *relock.Client, text string,
) (scripts, allowed int, took time.Duration) {
	conn := at.Dial(t)
	defer conn.Close() //nolint:errcheck // nothing is pending
	before, start := locktest.Calls(t, counted, "evalsha"), time.Now()
	for range 1000 {
		_, err := conn.Do("PUBLISH", channel(c), text)
		require.NoError(t, err)
	}
	watch := testkit.NewStopwatch(t)
	testkit.Eventually(t, testkit.Patience, func() bool {
		scripts = locktest.Calls(t, counted, "evalsha") - before
		return scripts > 1
	}, "tries twice")
	watch.Within(locktest.NotifyLimit)
	took = time.Since(start)
	allowed = int(took/waitqueue.CheckPause) + 1 + waitqueue.ChecksAhead
	return scripts, allowed, took
}

// However many wake-ups somebody forges, a waiter makes one attempt for each
// pause.
func TestForgedWakeUpsCostFewAttempts(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[1])
		w := q.WaitSubscribed(0, q.Clients[0], patient)
		scripts, allowed, took := forge(t, q.Server, q.Server, q.Clients[0], locktest.HintOf(q.NewestEntry())+" "+q.Key)
		polls := 2 * (1 + int(took/time.Second))
		require.LessOrEqual(t, scripts, allowed+polls)
		h, _ = q.HandOff(h, w)
		q.UnlockLast(h)
	})
}

// A RedLock's call makes one round for each pause, and each node that is forged
// for.
func TestForgedWakeUpsOfARedLockCostFewRounds(t *testing.T) {
	servers := locktest.RedServers.Take(t, 3) // they come of age while other tests run
	t.Parallel()
	for _, s := range servers {
		locktest.AwaitUp(t, s)
	}
	b := locktest.NewRedBench(t, servers)
	others := b.Others()
	h := b.TakeWhole() // at a node that it lacks, a round takes two scripts
	w := b.WaitPatiently(t.Context(), others)
	b.AwaitListed(1, others)
	node := 0
	for len(b.ListedWaits(node)) != 1 || !b.IsSubscribed(others[node]) {
		node++
	}
	text := b.ListedWaits(node)[0] + " " + b.Prefix + "{k}"
	rounds, allowed, took := forge(t, servers[node], servers[(node+1)%3], others[node], text)
	slack := 20 * (1 + int(took/time.Second)) // renewals, rounds that have begun, and polls
	require.LessOrEqual(t, rounds, allowed+slack)
	next, _ := b.Granted(w, h)
	ctx, cancel := context.WithCancel(t.Context())
	leaves := b.WaitPatiently(ctx, others)
	b.AwaitListed(1, others)
	cancel()
	require.ErrorIs(t, leaves.End(), context.Canceled)
	require.NoError(t, next.Unlock(t.Context()))
	b.RequireNoListedWaits(others)
	for _, c := range others {
		require.Zero(t, locktest.Engine(c).Queue.State().Targets, "it still listens for a call")
	}
}

// A wake-up that comes within the pause after an attempt causes one when that
// ends: it may be the one that counts.
func TestWakeUpWithinThePauseIsNotDropped(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		waiter := q.Clients[0]
		queue := locktest.Engine(waiter).Queue
		var took []time.Duration
		for range 7 {
			h := q.Take(q.Clients[1])
			w := q.WaitSubscribed(0, waiter, patient)
			text := locktest.HintOf(q.NewestEntry()) + " " + q.Key
			before := locktest.Calls(t, q.Server, "evalsha")
			queue.PauseFor(10 * time.Millisecond) // from a wake-up before, however slow the machine is
			q.Server.Do(t, "PUBLISH", channel(waiter), text)
			testkit.Eventually(t, testkit.Patience,
				func() bool { return locktest.Calls(t, q.Server, "evalsha") > before }, "tries")
			queue.PauseFor(30 * time.Millisecond)
			watch := testkit.NewStopwatch(t)
			q.Server.Do(t, "EVAL",
				"redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], ARGV[2])", 1, q.Key, channel(waiter), text)
			next := w.Granted()
			took = append(took, watch.Net())
			_ = h.Unlock(context.Background()) // lost
			q.Unlock(next)
		}
		requireMedian(t, took, locktest.NotifyLimit)
	})
}
