package proof

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The holder is killed: the first waiter gets the lock when the lease ends.
func TestHolderIsKilledWhileOthersWait(t *testing.T) {
	eachWaitedLock(t, func(b *waitBench) {
		const lease = 2 * time.Second
		child := b.start(lease, 1)
		child.Next("granted", patience)
		w := b.wait()
		b.awaitSubscribed(1)
		child.Kill()
		killed, watch := time.Now(), testkit.NewStopwatch(b)
		left := time.Duration(b.number("PTTL", keyInRedis(waitedKey))) * time.Millisecond
		delay := w.granted(b, killed)
		b.Logf("granted %v after the kill, %v after the end of the lease", delay, delay-left)
		require.GreaterOrEqual(b, delay, left-20*time.Millisecond)
		watch.Check(delay, left+waitPeriod)
		b.finish(w.hold)
	})
}

// The first five waiters are killed: the sixth gets the lock soon after it is
// free.
func TestFirstFiveWaitersAreKilled(t *testing.T) {
	eachWaitedLock(t, func(b *waitBench) {
		h := b.hold()
		var children []*faults.Child
		for range 5 {
			children = append(children, b.process(30*time.Second, 1))
		}
		w := b.wait()
		b.awaitSubscribed(6)
		for _, child := range children {
			child.Kill()
		}
		b.judgeCrashed(h.Unlock, w)
	})
}

// A process with many waiters is killed in front of a live one.
func TestProcessWithManyWaitersIsKilled(t *testing.T) {
	eachWaitedLock(t, func(b *waitBench) {
		h := b.hold()
		child := b.process(30*time.Second, pick(1000, 150)) // more than one script looks at
		w := b.wait()
		b.awaitSubscribed(2)
		child.Kill()
		b.judgeCrashed(h.Unlock, w)
	})
}

// judgeCrashed unlocks, and measures how long the live waiter behind the
// crashed ones waits for the lock.
func (b *waitBench) judgeCrashed(unlock func(context.Context) error, w *live) {
	b.Helper()
	time.Sleep(100 * time.Millisecond) // the server sees the end of the connections
	start, watch := time.Now(), testkit.NewStopwatch(b)
	require.NoError(b, unlock(context.Background()))
	delay := w.granted(b, start)
	b.Logf("granted %v after the unlock", delay)
	watch.Check(delay, b.afterCrash())
	b.finish(w.hold)
}

// The process that the lock is reserved for is killed before it takes it: the
// next one gets it when the reservation expires.
func TestProcessIsKilledBeforeItTakesWhatIsReserved(t *testing.T) {
	eachWaitedLock(t, func(b *waitBench) {
		h := b.hold()
		child := b.process(30*time.Second, 1)
		w := b.wait()
		b.awaitSubscribed(2)
		time.Sleep(20 * time.Millisecond) // no longer young
		child.Stop()
		require.NoError(b, h.Unlock(b.Context()))
		value, err := redis.String(b.server.Do(b, "GET", keyInRedis(waitedKey)), nil)
		require.NoError(b, err)
		require.True(b, strings.HasPrefix(value, "relock/1|w|"), value)
		start, watch := time.Now(), testkit.NewStopwatch(b)
		child.Kill()
		delay := w.granted(b, start)
		b.Logf("granted %v after the kill", delay)
		watch.Check(delay, claimLease+waitPeriod)
		b.finish(w.hold)
	})
}

// The process of the first waiter is stopped. The waiter behind it gets the
// lock when the reservation expires, or the first one counts as crashed. When
// the process continues, the first waiter gets the lock.
func TestFirstWaiterIsStopped(t *testing.T) {
	eachWaitedLock(t, func(b *waitBench) {
		h := b.hold()
		child := b.process(30*time.Second, 1)
		w := b.wait()
		b.awaitSubscribed(2)
		time.Sleep(20 * time.Millisecond)
		child.Stop()
		start, watch := time.Now(), testkit.NewStopwatch(b)
		require.NoError(b, h.Unlock(b.Context()))
		delay := w.granted(b, start)
		b.Logf("granted %v after the unlock", delay)
		watch.Check(delay, 5*waitPeriod/2+claimLease)
		child.Continue()
		b.awaitQueued(1)
		start, watch = time.Now(), testkit.NewStopwatch(b)
		require.NoError(b, w.hold.Unlock(b.Context()))
		child.Next("granted", patience)
		b.Logf("the one that was stopped has the lock %v after the next unlock", time.Since(start))
		watch.Within(waitPeriod + claimLease)
		child.Send("unlock")
		child.Next("unlocked", patience)
		child.End(patience)
	})
}
