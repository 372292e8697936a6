package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A client that was cut off for longer than it seems alive comes back to its
// old entry.
func TestClientThatComesBackKeepsItsEntry(t *testing.T) {
	locktest.EachMode(t, locktest.Fair, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		away, proxy := q.Behind()
		h := q.Take(q.Clients[0])
		first := q.WaitSubscribed(0, away, relock.WithPollInterval(time.Second)) // with 4 s to take it
		second, third := q.WaitSubscribed(1, q.Clients[1]), q.WaitSubscribed(2, q.Clients[1])
		proxy.Refuse()
		time.Sleep(2700 * time.Millisecond)
		next, _ := q.HandOff(h, second) // the first one seems crashed: its entry is removed
		require.Equal(t, 1, q.QueueLength())
		proxy.Accept()
		q.AwaitQueued(2)
		q.AwaitSubscribed(away)
		q.Unlock(next)
		next = first.Granted()
		require.False(t, third.HasEnded(), "the old entry is the one before")
		q.Unlock(next)
		q.UnlockLast(third.Granted())
	})
}

// A server that forgets the queue, or that restarts, leaves no waiter behind.
func TestServerForgetsTheQueue(t *testing.T) {
	forget := func(patterns ...any) func(*bench) {
		const del = "for _, p in ipairs(ARGV) do for _, k in ipairs(redis.call('KEYS', p)) do redis.call('DEL', k) end end"
		return func(q *bench) { q.Server.Do(q, "EVAL", append([]any{del, 0}, patterns...)...) }
	}
	restart := func(pause time.Duration) func(*bench) {
		return func(q *bench) { q.Server.Kill(q); time.Sleep(pause); q.Server.Boot(q) }
	}
	locktest.EachCase(t, locktest.QueueModes, map[string]func(*bench){
		"everything": forget("*"), "only the queue": forget("*:q", "*:b"), "only the heartbeats": forget("*:b"),
		"killed, restarts": restart(0), "away for a while": restart(1500 * time.Millisecond),
	}, func(t testing.TB, m mode, forget func(*bench)) {
		q := locktest.NewQueueBench(t, m, 4)
		h := q.Take(q.Clients[0])
		var served visits
		var results []<-chan error
		for i := range 12 {
			results = append(results, async(q, q.Lock(q.Clients[1+i%3]), 1, served.add))
			q.AwaitQueued(q.EntriesOf(i+1, 3))
		}
		watch := testkit.NewStopwatch(t)
		forget(q)
		if err := h.Unlock(t.Context()); err != nil {
			require.ErrorIs(t, err, relock.ErrLockLost)
		}
		testkit.AllWithin(t, results, testkit.Patience)
		watch.Within(15 * time.Second)
		require.Equal(t, 12, served.all)
		q.RequireNothingLeft()
	})
}

// A client whose messages or polls come late, or not at all, makes its waiter
// try over the pool: if connecting takes longer than the poller and the
// subscription have for it, and if there is no message and polls are answered
// later than they are waited for. Then the waiter has the command timeout.
func TestWaiterWhoseClientIsSlow(t *testing.T) {
	locktest.EachCase(t, plainModes, map[string]func(*faults.Proxy){
		"connects slowly": func(p *faults.Proxy) {
			p.On(faults.Command("SELECT"), faults.Every, faults.Delay(driver.MinConnect+200*time.Millisecond))
		},
		"polls are answered late": func(p *faults.Proxy) {
			p.On(faults.Command("SUBSCRIBE"), faults.Every,
				faults.ErrorLine("NOPERM User app has no permissions to run the 'subscribe' command"))
			p.On(faults.Script(script.Poll.SHA), faults.Every, faults.Delay(background.RetryLimit+200*time.Millisecond))
		},
	}, func(t testing.TB, m mode, slow func(*faults.Proxy)) {
		q := locktest.NewQueueBench(t, m, 1, relock.WithDatabase(1))
		c, proxy := q.Behind(relock.WithDatabase(1))
		slow(proxy)
		h := q.Take(q.Clients[0])
		w := q.Wait(t.Context(), c)
		testkit.Eventually(t, testkit.Patience,
			func() bool { return locktest.Inspect(t, q.Clients[0], locktest.QueueKey).Waiting == 1 }, "waits")
		q.Unlock(h)
		q.Unlock(w.Granted())
	})
}

// The retrier has the time that connecting takes, even if that is longer than
// it waits for an answer: what was not answered is released.
func TestRetrierConnectsSlowly(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 1, relock.WithDatabase(1))
	c, proxy := q.Behind(relock.WithDatabase(1))
	h := q.Take(c)
	proxy.On(faults.Command("SELECT"), faults.Every, faults.Delay(driver.MinConnect+700*time.Millisecond))
	proxy.On(faults.Script(script.Release.SHA), 1, faults.CutBefore)
	start := time.Now()
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrUnconfirmed)
	q.Unlock(q.Wait(t.Context(), q.Clients[0]).Granted())
	require.Less(t, time.Since(start), lockspec.DefaultLease/2, "it waited for the end of the lease")
}

// The interval of the polls is what the waiters ask for, not what one asked for
// that has left.
func TestPollForgetsTheIntervalOfACancelledCall(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBenchOn(t, redistest.Shared(t), locktest.PlainFair, 2)
	h, c := q.Take(q.Clients[0]), q.Clients[1]
	wait := func(ctx context.Context, interval time.Duration) *waiting {
		w := q.Wait(ctx, c, relock.WithPollInterval(interval))
		testkit.Eventually(t, testkit.Patience, func() bool { return line(q, c).Interval == interval }, "polls as often")
		return w
	}
	slow := wait(t.Context(), 100*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	quick := wait(ctx, time.Millisecond)
	cancel()
	require.ErrorIs(t, quick.End(), context.Canceled)
	testkit.Eventually(t, testkit.Patience, func() bool { return line(q, c).Interval == 100*time.Millisecond },
		"polls as the waiter asks")
	q.Unlock(h)
	q.Unlock(slow.Granted())
}
