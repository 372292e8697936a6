package proof

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

// victim is a holder that is killed while another process waits for the lock.
type victim struct {
	kind, key string
	child     *faults.Child
	killed    int64 // by the wall clock in ms, as what follows
	end       int64 // of its lease
	due       chan alarm
	granted   chan int64
}

// alarm is a timer that rang at the end of a lease. It starts a stopwatch, so
// that this measures lateness only from then on.
type alarm struct {
	at    int64
	watch *testkit.Stopwatch
}

// When a holder is killed, the lock is free at the end of its lease, and not
// sooner. Few processes live together: more would keep each other from renewing
// in time, and a hold that was lost before its process is killed shows nothing.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	random := newSeededRandom(t)
	b := newPauseBench(t, 2*time.Second)
	for some := range slices.Chunk(newVictims(pick(30, 4)), 5) {
		for _, v := range some {
			v.begin(b)
		}
		for _, v := range some {
			time.Sleep(time.Duration(random.Int64N(int64(b.lease / 6))))
			v.kill(b)
		}
		for _, v := range some {
			v.judge(b)
		}
	}
}

func newVictims(count int) (all []*victim) {
	for n := range count {
		all = append(all,
			&victim{kind: kindsOfLocks[n%2], key: "k" + strconv.Itoa(n), due: make(chan alarm, 1), granted: make(chan int64, 1)})
	}
	return all
}

func (v *victim) begin(b *pauseBench) {
	b.Helper()
	v.child = b.spawn(v.kind, v.key, "once")
	v.child.Send("acquire")
	require.Equal(b, "true", v.child.Next("acquire", patience).Values[0])
	lock := newLockOf(v.kind, v.key, b.client, relock.WithBlock(), relock.WithPollInterval(10*time.Millisecond))
	b.waiting.Go(func() {
		defer close(v.granted)
		if _, err := lock.Acquire(b.Context()); err == nil {
			v.granted <- time.Now().UnixMilli()
		}
	})
}

func (v *victim) kill(b *pauseBench) {
	b.Helper()
	v.child.Kill()
	v.killed = time.Now().UnixMilli()
	v.end = b.expiry(v.key)
	require.Positive(b, v.end, "the lock of a process that was just killed is still there")
	require.LessOrEqual(b, v.end, v.killed+b.lease.Milliseconds(), "no lease is longer")
	time.AfterFunc(time.Until(time.UnixMilli(v.end)),
		func() { v.due <- alarm{time.Now().UnixMilli(), testkit.NewStopwatch(b)} })
}

func (v *victim) judge(b *pauseBench) {
	b.Helper()
	granted, due := <-v.granted, <-v.due
	b.Logf("%s: free %d ms after the kill, granted to a waiter %d ms after that", v.kind, v.end-v.killed, granted-v.end)
	require.GreaterOrEqual(b, granted, v.end, "not before the lease has ended")
	due.watch.Check(time.Duration(granted-due.at)*time.Millisecond, 100*time.Millisecond, "after the end of the lease")
}
