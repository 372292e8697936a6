package proof

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The two ways to use a read/write lock, as kinds of locks.
const (
	toWrite = "RWLock"
	toRead  = "RWLock to read"
)

// reading is a read/write lock whose Acquire reads.
type reading struct{ lock *relock.RWLock }

func (r reading) Acquire(ctx context.Context) (relock.Hold, error) { return r.lock.RAcquire(ctx) }

// rwProcesses is a read/write lock that processes use.
type rwProcesses struct{ *waitBench }

func eachRWMode(t *testing.T, run func(b *rwProcesses)) {
	t.Parallel()
	together(t, waitModes, func(t *testing.T, mode string) {
		run(&rwProcesses{newWaitBench(t, toWrite, mode)})
	})
}

// use makes the next processes, and the next calls of the test, read or write.
func (b *rwProcesses) use(kind string) *rwProcesses {
	b.kind = kind
	return b
}

// A reader is killed. A writer gets the lock when the reader's lease ends,
// though others with a longer lease have read meanwhile.
func TestReaderIsKilledWhileOneWaitsToWrite(t *testing.T) {
	eachRWMode(t, func(b *rwProcesses) {
		const lease = 2 * time.Second
		child := b.use(toRead).start(lease, 1)
		child.Next("granted", patience)
		other := b.hold()
		w := b.use(toWrite).wait()
		child.Kill()
		killed, watch := time.Now(), testkit.NewStopwatch(b)
		ends := b.firstEnd()
		require.NoError(b, other.Unlock(b.Context()))
		delay := w.granted(b.waitBench, killed)
		b.Logf("granted %v after the kill; the lease of the one that was killed ended after %v", delay, ends)
		require.GreaterOrEqual(b, delay, ends-20*time.Millisecond)
		watch.Check(delay, ends+waitPeriod)
		b.finish(w.hold)
	})
}

// firstEnd is how long the hold has that ends first.
func (b *rwProcesses) firstEnd() time.Duration {
	b.Helper()
	now, err := redis.Int64s(b.server.Do(b, "TIME"), nil)
	require.NoError(b, err)
	entries, err := redis.Strings(b.server.Do(b, "ZRANGEBYSCORE", keyInRedis(waitedKey), 1, "(inf", "WITHSCORES"), nil)
	require.NoError(b, err)
	require.Len(b, entries, 4)
	us, err := redis.Int64([]byte(entries[1]), nil)
	require.NoError(b, err)
	return time.Duration(us-now[0]*1_000_000-now[1]) * time.Microsecond
}

// A process that writes is killed in front of many readers.
func TestWriterIsKilledWhileOthersWaitToRead(t *testing.T) {
	eachRWMode(t, func(b *rwProcesses) {
		const lease = 2 * time.Second
		child := b.use(toWrite).start(lease, 1)
		child.Next("granted", patience)
		readers := b.use(toRead).process(30*time.Second, 20)
		child.Kill()
		killed, watch := time.Now(), testkit.NewStopwatch(b)
		for range 20 {
			readers.Next("granted", patience)
		}
		b.Logf("20 read %v after the kill", time.Since(killed))
		watch.Within(lease + waitPeriod)
		for range 20 {
			readers.Send("unlock")
		}
		for range 20 {
			readers.Next("unlocked", patience)
		}
		readers.End(patience)
		b.finish(nil)
	})
}

// A waiting writer is killed while others read. The readers behind it read too,
// once it counts as crashed.
func TestWaiterThatKeepsReadersOutIsKilled(t *testing.T) {
	eachRWMode(t, func(b *rwProcesses) {
		h := b.use(toRead).hold()
		child := b.use(toWrite).process(30*time.Second, 1)
		time.Sleep(20 * time.Millisecond) // no longer young
		w := b.use(toRead).wait()
		child.Kill()
		start, watch := time.Now(), testkit.NewStopwatch(b)
		delay := w.granted(b.waitBench, start)
		b.Logf("granted %v after the kill", delay)
		watch.Check(delay, 5*waitPeriod/2+waitPeriod)
		require.NoError(b, h.Unlock(b.Context()))
		b.finish(w.hold)
	})
}

// The lock is reserved for several readers. One process is killed, and one is
// stopped. The others read, and a writer behind them waits no longer than the
// reservations last.
func TestReadersForWhomTheLockIsReservedAreKilled(t *testing.T) {
	eachRWMode(t, func(b *rwProcesses) {
		h := b.use(toWrite).hold()
		var children []*faults.Child
		for range 3 {
			children = append(children, b.use(toRead).process(30*time.Second, 1))
		}
		w := b.use(toWrite).wait()
		b.awaitSubscribed(4)
		time.Sleep(20 * time.Millisecond)
		children[0].Stop()
		children[1].Stop()
		start, watch := time.Now(), testkit.NewStopwatch(b)
		require.NoError(b, h.Unlock(b.Context()))
		children[2].Next("granted", patience)
		children[1].Kill()
		children[2].Send("unlock")
		children[2].Next("unlocked", patience)
		delay := w.granted(b.waitBench, start)
		b.Logf("granted %v after the unlock", delay)
		watch.Check(delay, claimLease+waitPeriod)
		children[0].Continue()
		require.NoError(b, w.hold.Unlock(b.Context()))
		children[0].Next("granted", patience)
		children[0].Send("unlock")
		children[0].Next("unlocked", patience)
		children[0].End(patience)
		children[2].End(patience)
		b.finish(nil)
	})
}

// finish unlocks if the test is the last holder, and checks that no key is
// left.
func (b *rwProcesses) finish(h relock.Hold) {
	b.Helper()
	if h != nil {
		require.NoError(b, h.Unlock(context.Background()))
	}
	key := keyInRedis(waitedKey)
	b.await(func() bool { return b.number("EXISTS", key, key+":q", key+":h") == 0 }, "something is left")
	require.NotEqual(b, int64(-1), b.number("PTTL", key+":b"), "heartbeats without an expiry")
}
