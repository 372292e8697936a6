package proof

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const (
	waitedKey = "waited"
	// claimLease is how long a waiter has to take a hand-off, by design.
	// waitPeriod is the time between two of its heartbeats.
	claimLease = 1250 * time.Millisecond
	waitPeriod = time.Second
)

// waitBench is a lock for which processes wait.
type waitBench struct {
	*testing.T
	kind, mode string
	server     *redistest.Server
	client     *relock.Client // of the test
	waits      int            // that were started
	program    faults.Program // of the processes that it starts
}

var waitModes = map[string]string{unfairMode: unfairMode, fairMode: fairMode}

// eachWaitedLock runs a test with both kinds of lock in both modes.
func eachWaitedLock(t *testing.T, run func(b *waitBench)) {
	t.Parallel()
	for _, kind := range kindsOfLocks {
		t.Run(kind, func(t *testing.T) {
			t.Parallel() // all four together would start up to 20 processes
			together(t, waitModes, func(t *testing.T, mode string) { run(newWaitBench(t, kind, mode)) })
		})
	}
}

func newWaitBench(t *testing.T, kind, mode string) *waitBench {
	t.Helper()
	server := redistest.Start(t)
	return &waitBench{T: t, kind: kind, mode: mode, server: server, client: newParentClient(t, server)}
}

func (b *waitBench) lock(opts ...relock.LockOption) processLock {
	return waitedLock(b.kind, b.mode, waitedKey, b.client, opts...)
}

// hold makes the test the holder.
func (b *waitBench) hold() relock.Hold {
	b.Helper()
	h, err := b.lock().Acquire(b.Context())
	require.NoError(b, err)
	return h
}

// process starts a process with waiters and waits until they are in the queue.
// None of them may be granted yet.
func (b *waitBench) process(lease time.Duration, waiters int) *faults.Child {
	b.Helper()
	child := b.start(lease, waiters)
	if b.mode == unfairMode && slices.Contains(kindsOfLocks, b.kind) {
		waiters = min(waiters, 1) // the others wait in the process
	}
	b.waits += waiters
	b.awaitQueued(b.waits)
	return child
}

func (b *waitBench) start(lease time.Duration, waiters int) *faults.Child {
	b.Helper()
	return b.program.Spawn(b, "waiters", b.server.Network, b.server.Address, b.kind, b.mode, waitedKey,
		strconv.FormatInt(lease.Milliseconds(), 10), strconv.Itoa(waiters))
}

func (b *waitBench) awaitQueued(n int) {
	b.Helper()
	b.await(func() bool { return b.number("ZCARD", keyInRedis(waitedKey)+":q") == int64(n) }, "not as many in the queue")
}

// awaitSubscribed waits until the server has recorded the subscriptions of all
// waiters.
func (b *waitBench) awaitSubscribed(clients int) {
	b.Helper()
	b.await(func() bool {
		heartbeats, err := redis.StringMap(b.server.Do(b, "HGETALL", keyInRedis(waitedKey)+":b"), nil)
		require.NoError(b, err)
		subscribed := 0
		for _, heartbeat := range heartbeats {
			if strings.Count(heartbeat, ":") == 2 && strings.HasSuffix(heartbeat, ":1") {
				subscribed++
			}
		}
		return subscribed == clients
	}, "not all subscriptions are noted")
}

func (b *waitBench) await(ok func() bool, what string) {
	b.Helper()
	testkit.Eventually(b, patience, ok, what)
}

func (b *waitBench) number(command string, args ...any) int64 {
	b.Helper()
	n, err := redis.Int64(b.server.Do(b, command, args...), nil)
	require.NoError(b, err)
	return n
}

// live is the waiter in the test's process that is to get the lock in the end.
type live struct {
	hold relock.Hold
	at   time.Time
	err  error
	done chan struct{}
}

func (b *waitBench) wait() *live {
	b.Helper()
	w := &live{done: make(chan struct{})}
	lock := b.lock()
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(func() {
		cancel()
		<-w.done
	})
	go func() {
		defer close(w.done)
		w.hold, w.err = lock.Acquire(ctx)
		w.at = time.Now()
	}()
	b.waits++
	b.awaitQueued(b.waits)
	return w
}

// granted waits for the grant, and returns how long after start it came.
func (w *live) granted(b *waitBench, start time.Time) time.Duration {
	b.Helper()
	select {
	case <-w.done:
	case <-time.After(patience):
		require.FailNow(b, "it waits for ever")
	}
	require.NoError(b, w.err)
	return w.at.Sub(start)
}

// finish releases the lock, and checks that nothing is left of the queue.
func (b *waitBench) finish(h relock.Hold) {
	b.Helper()
	require.NoError(b, h.Unlock(context.Background()))
	key := keyInRedis(waitedKey)
	b.await(func() bool { return b.number("EXISTS", key, key+":q") == 0 }, "something is left")
	require.NotEqual(b, int64(-1), b.number("PTTL", key+":b"), "heartbeats without an expiry")
}

// afterCrash is the longest wait behind crashed processes: almost nothing for
// an unfair lock. A fair one is reserved for each of their waiters, until their
// heartbeats are stale.
func (b *waitBench) afterCrash() time.Duration {
	if b.mode == unfairMode {
		return claimLease / 2
	}
	return 5*waitPeriod/2 + claimLease
}
