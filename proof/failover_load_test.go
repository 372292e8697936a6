package proof

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// failoverLoad is goroutines of several clients that take two locks again and
// again, one fair and one not, at a master that sentinels name.
type failoverLoad struct {
	testing.TB
	set   *redistest.Sentinels
	start time.Time
	end   context.CancelFunc
	group sync.WaitGroup

	mu       sync.Mutex
	sections map[string][]section // by key
	grants   []int                // by goroutine
	grant    chan struct{}        // closed at the next grant
	failed   error                // of a call

	afterWrite, afterNamed []time.Duration // the first grant, in each failover
}

func newFailoverLoad(t testing.TB, opts ...relock.LockOption) *failoverLoad {
	l := &failoverLoad{TB: t, set: redistest.StartSentinels(t, downAfter), start: time.Now(), sections: map[string][]section{}, grant: make(chan struct{})}
	ctx, end := context.WithCancel(t.Context())
	l.end = end
	t.Cleanup(l.stop)
	opts = append(opts, relock.WithBlock(), relock.WithWatchdog(3*time.Second))
	for range 3 {
		c := sentinelClient(t, l.set)
		for i := range 4 {
			lock := processLock(relock.NewRedisLock("unfair", c, opts...))
			key := "unfair"
			if i%2 == 1 {
				key, lock = "fair", relock.NewReentrantLock("fair", c, append(opts, relock.WithFair())...)
			}
			l.grants = append(l.grants, 0)
			n := len(l.grants) - 1
			l.group.Go(func() { l.run(ctx, n, key, lock) })
		}
	}
	l.awaitAll()
	return l
}

// stop ends the goroutines.
func (l *failoverLoad) stop() {
	l.end()
	l.group.Wait()
	require.NoError(l, l.failed)
}

// run takes a lock again and again, for a moment each.
func (l *failoverLoad) run(ctx context.Context, n int, key string, lock processLock) {
	for ctx.Err() == nil {
		h, err := lock.Acquire(ctx)
		if err != nil {
			l.note(ctx, err)
			return
		}
		from := time.Now()
		time.Sleep(rand.N(2 * time.Millisecond))
		until := time.Now()
		if valid := h.ValidUntil(); valid.Before(until) {
			until = valid
		}
		_ = h.Unlock(context.Background()) // the master may be away
		l.add(n, key, from, until)
	}
}

// note keeps the error of a call that is not over by the end of the test.
func (l *failoverLoad) note(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		l.failed = err
	}
}

func (l *failoverLoad) add(n int, key string, from, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sections[key] = append(l.sections[key], section{goroutine: n, from: int64(from.Sub(l.start)), until: int64(until.Sub(l.start))})
	l.grants[n]++
	close(l.grant)
	l.grant = make(chan struct{})
}

func (l *failoverLoad) holds() (sum int) {
	for _, key := range l.sections {
		sum += len(key)
	}
	return sum
}

// awaitAll waits until each goroutine has got its lock once more.
func (l *failoverLoad) awaitAll() {
	l.Helper()
	l.mu.Lock()
	before := append([]int{}, l.grants...)
	l.mu.Unlock()
	require.Eventually(l, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		require.NoError(l, l.failed)
		for n, had := range before {
			if l.grants[n] <= had {
				return false
			}
		}
		return true
	}, patience, 5*time.Millisecond, "a waiter was not served")
}

// failOver ends the master, and waits until each goroutine was served by the
// new one, and the set is whole again.
func (l *failoverLoad) failOver(end func(*redistest.Server, testing.TB)) {
	l.Helper()
	old := l.set.Agreed(l)
	require.NotNil(l, old)
	end(old, l)
	written := l.firstWrite(old)
	named := l.firstNamed(old)
	first := l.firstGrant(written)
	l.afterWrite = append(l.afterWrite, (first - written.Sub(l.start)).Round(time.Millisecond))
	l.afterNamed = append(l.afterNamed, max(0, first-named.Sub(l.start)).Round(time.Millisecond))
	l.awaitAll()
	l.set.Return(l, old)
	l.awaitAll()
}

// firstWrite returns when one of the replicas first accepted a write.
func (l *failoverLoad) firstWrite(old *redistest.Server) time.Time {
	l.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, s := range l.set.Servers {
			if s == old {
				continue
			}
			if _, err := s.Try(l, "SET", "probe", 1); err == nil {
				return time.Now()
			}
		}
	}
	l.Fatal("no replica was promoted")
	return time.Time{}
}

// firstNamed returns when a sentinel first named another master.
func (l *failoverLoad) firstNamed(old *redistest.Server) time.Time {
	l.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, s := range l.set.Sentinels {
			if l.set.Master(l, s) != old {
				return time.Now()
			}
		}
	}
	l.Fatal("no sentinel names another master")
	return time.Time{}
}

// firstGrant returns when a lock was first granted after a time.
func (l *failoverLoad) firstGrant(after time.Time) time.Duration {
	l.Helper()
	from := int64(after.Sub(l.start))
	for deadline := time.Now().Add(patience); ; {
		l.mu.Lock()
		first := int64(-1)
		for _, key := range l.sections {
			for i := len(key) - 1; i >= 0 && key[i].from >= from; i-- {
				if first < 0 || key[i].from < first {
					first = key[i].from
				}
			}
		}
		grant := l.grant
		l.mu.Unlock()
		if first >= 0 {
			return time.Duration(first)
		}
		select {
		case <-grant:
		case <-time.After(time.Until(deadline)):
			l.Fatal("no grant after the failover")
		}
	}
}
