package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Storms: clients of all sorts do everything at once, at random, under faults at random. After each of them nobody has believed in a lock that
// another believed in, and within two seconds of a pause nothing is left: no key, no entry in a table, no connection in use.

// stormLength is short in normal runs; RELOCK_STORM=100s makes long ones.
func stormLength(t testing.TB) time.Duration {
	text := os.Getenv("RELOCK_STORM")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

const (
	stormKeys    = 6 // the first half are plain locks, the others reentrant ones
	stormWorkers = 6 // of each client
)

type storm struct {
	testing.TB
	server  *redistest.Server
	clients []*relock.Client
	gate    sync.RWMutex // held by operations; taken for quiet moments
	holders [stormKeys]atomic.Pointer[believer]

	mu     sync.Mutex
	counts map[string]int
}

// believer works under a hold.
type believer struct{ hold relock.Hold }

func (s *storm) count(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what+": "+outcomeName(err)]++
}

func outcomeName(err error) string {
	for _, reason := range []error{
		relock.ErrLockAcquiredByOthers, relock.ErrMaxHold, relock.ErrLockLost, relock.ErrUnconfirmed, relock.ErrNotHeld, relock.ErrClosed, context.Canceled, context.DeadlineExceeded, relock.ErrKeyConflict,
	} {
		if errors.Is(err, reason) {
			return reason.Error()
		}
	}
	if err != nil {
		return "other error"
	}
	return "ok"
}

// work does one thing under the hold of key k, and sees that nobody else believes in it.
func (s *storm) work(k int, h relock.Hold, f func()) {
	mine := &believer{h}
	if before := s.holders[k].Swap(mine); before != nil && before.hold.Err() == nil && h.Err() == nil {
		s.Errorf("two believe in key %d", k)
	}
	f()
	s.holders[k].CompareAndSwap(mine, nil)
}

func (s *storm) operation(c *relock.Client, shared []*relock.RedisLock) {
	ctx, cancel := context.WithTimeout(s.Context(), rand.N(800*time.Millisecond))
	defer cancel()
	if rand.IntN(4) == 0 {
		defer time.AfterFunc(rand.N(5*time.Millisecond), cancel).Stop()
	}
	start := time.Now()
	switch k := rand.IntN(stormKeys); {
	case k < stormKeys/2 && rand.IntN(2) == 0:
		s.do(ctx, k, shared[k])
	case k < stormKeys/2:
		s.plain(ctx, k, relock.NewRedisLock(stormKey(k), c, stormOptions()...))
	default:
		s.reentrant(ctx, k, c)
	}
	if took := time.Since(start); took > 15*time.Second {
		s.Errorf("an operation took %v", took)
	}
}

func stormKey(k int) string { return fmt.Sprint("k", k) }

func stormLease() relock.LockOption {
	lease := []time.Duration{200, 500, 1000, 20_000}[rand.IntN(4)] * time.Millisecond
	if rand.IntN(3) == 0 {
		return relock.WithExpiry(lease)
	}
	return relock.WithWatchdog(lease)
}

func stormOptions() []relock.LockOption {
	opts := []relock.LockOption{stormLease()}
	if rand.IntN(2) == 0 {
		opts = append(opts, relock.WithBlockTimeout(1+rand.N(500*time.Millisecond)))
	}
	if rand.IntN(6) == 0 {
		opts = append(opts, relock.WithMaxHold(time.Millisecond+rand.N(100*time.Millisecond)))
	}
	return opts
}

// linger passes some time, mostly none.
func linger() {
	switch rand.IntN(10) {
	case 0:
		time.Sleep(rand.N(300 * time.Millisecond))
	case 1, 2, 3:
		time.Sleep(rand.N(3 * time.Millisecond))
	}
}

func (s *storm) do(ctx context.Context, k int, l *relock.RedisLock) {
	s.count("do", l.Do(ctx, func(ctx context.Context) error {
		h, _ := relock.HoldFromContext(ctx, stormKey(k))
		s.work(k, h, linger)
		return nil
	}))
}

func (s *storm) plain(ctx context.Context, k int, l *relock.RedisLock) {
	h, err := l.Acquire(ctx)
	s.count("plain lock", err)
	if err != nil {
		return
	}
	s.work(k, h, func() {
		linger()
		if rand.IntN(3) == 0 {
			s.count("extend", h.Extend(ctx, 300*time.Millisecond))
		}
	})
	s.count("plain unlock", h.Unlock(ctx))
}

func (s *storm) reentrant(ctx context.Context, k int, c *relock.Client) {
	h, err := relock.NewReentrantLock(stormKey(k), c, stormOptions()...).Acquire(ctx)
	s.count("reentrant lock", err)
	if err != nil {
		return
	}
	s.work(k, h, func() {
		var group sync.WaitGroup
		for range rand.IntN(3) {
			group.Go(func() { s.levels(h.Context(), k, c) })
		}
		linger()
		group.Wait()
		s.requireOneLevel(c, k, h)
	})
	s.count("reentrant unlock", h.Unlock(ctx))
}

// levels goes deeper and back a few times.
func (s *storm) levels(ctx context.Context, k int, c *relock.Client) {
	for range rand.IntN(4) {
		ctx, cancel := context.WithTimeout(ctx, rand.N(200*time.Millisecond))
		h, err := relock.NewReentrantLock(stormKey(k), c, stormOptions()...).Acquire(ctx)
		s.count("re-entry", err)
		if err == nil {
			linger()
			s.count("inner unlock", h.Unlock(ctx))
			if err := h.Unlock(ctx); !errors.Is(err, relock.ErrNotHeld) {
				s.Errorf("unlocked twice: %v", err)
			}
		}
		cancel()
	}
}

// requireOneLevel checks that server and client count the same, now and then.
func (s *storm) requireOneLevel(c *relock.Client, k int, h relock.Hold) {
	owner := locktest.LeaseOf(h).OwnerKey().ID
	for end := time.Now().Add(2 * time.Second); h.Err() == nil && rand.IntN(3) == 0; time.Sleep(10 * time.Millisecond) {
		n, err := s.levelsOf(locktest.KeyOf(c, stormKey(k)), owner)
		if err == nil && n == 1 {
			s.count("levels counted", nil)
			return
		}
		if time.Now().After(end) && h.Err() == nil {
			s.Errorf("the server has %d levels (%v)", n, err)
			return
		}
	}
}

// levelsOf asks the server, which may be down.
func (s *storm) levelsOf(key, owner string) (int, error) {
	conn, err := redis.Dial(s.server.Network, s.server.Address, redis.DialReadTimeout(time.Second))
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // the command's error counts
	return redis.Int(conn.Do("HGET", key, owner))
}

// rage lets all clients work until the end, while trouble makes some at random.
func (s *storm) rage(length time.Duration, trouble func(), settle func()) {
	stop := make(chan struct{})
	var group sync.WaitGroup
	for _, c := range s.clients {
		var shared []*relock.RedisLock
		for k := range stormKeys / 2 {
			shared = append(shared, relock.NewRedisLock(stormKey(k), c, relock.WithWatchdog(20*time.Second), relock.WithBlockTimeout(400*time.Millisecond)))
		}
		for range stormWorkers {
			group.Go(func() { s.loop(stop, c, shared) })
		}
	}
	quiet := time.Now().Add(length / 4)
	for end := time.Now().Add(length); time.Now().Before(end); {
		trouble()
		if time.Now().After(quiet) {
			s.quiet(settle)
			quiet = time.Now().Add(min(length/4, 5*time.Second))
		}
	}
	close(stop)
	group.Wait()
	s.quiet(settle)
}

func (s *storm) loop(stop <-chan struct{}, c *relock.Client, shared []*relock.RedisLock) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		s.gate.RLock()
		s.operation(c, shared)
		s.gate.RUnlock()
	}
}

// quiet waits for all operations, and then checks that nothing is left of them.
func (s *storm) quiet(settle func()) {
	s.gate.Lock()
	defer s.gate.Unlock()
	settle()
	for end := time.Now().Add(stormSettles); ; time.Sleep(time.Millisecond) {
		locks, others := s.keys()
		s.requireEnd(others)
		if len(locks) == 0 {
			break
		}
		if time.Now().After(end) {
			require.Failf(s, "locks are left", "%v", s.describe(locks))
		}
	}
	for _, c := range s.clients {
		require.Zero(s, locktest.Engine(c).State().Owners, "owners")
		require.Zero(s, locktest.Engine(c).State().Leases, "leases")
		require.Empty(s, locktest.Engine(c).Watchdog().Pending(), "renewals")
		d := locktest.Engine(c).Driver.(*driver.Pool)
		testkit.Eventually(s, 2*time.Second, func() bool { return d.InUse() == 0 }, "connections in use")
	}
}

// stormSettles is how long a lock may stay after several faults in a row: the pause of a release that was tried before, a connection
// on which it is not answered, a hand-over to a call that has ended and whose subscription is silent; and what a busy machine adds.
const stormSettles = background.MaxPause + background.RetryLimit + 1250*time.Millisecond + 500*time.Millisecond

// describe says what locks are, for the one who has to find out why they are left.
func (s *storm) describe(locks []string) (all []string) {
	for _, key := range locks {
		value, err := s.server.Try(s, "GET", key)
		if err != nil {
			value, _ = s.server.Try(s, "HGETALL", key)
		}
		left, _ := s.server.Try(s, "PTTL", key)
		queue, _ := s.server.Try(s, "ZRANGE", key+":q", 0, -1)
		all = append(all, fmt.Sprintf("%s for %v ms: %s; queue: %s", key, left, value, queue))
	}
	for i, c := range s.clients {
		all = append(all, fmt.Sprintf("client %d, %s, cleans up %d", i, locktest.Engine(c).Identity.ID, len(locktest.Engine(c).Retrier.Pending())))
	}
	return all
}

// keys are what is at the server: locks, and what belongs to their queues.
func (s *storm) keys() (locks, others []string) {
	keys, err := redis.Strings(s.server.Try(s, "KEYS", "*"))
	require.NoError(s, err)
	for _, key := range keys {
		if strings.HasSuffix(key, "}") {
			locks = append(locks, key)
		} else {
			others = append(others, key)
		}
	}
	return locks, others
}

// requireEnd checks that what is left of queues, which a poll may leave that was overtaken, ends with them.
func (s *storm) requireEnd(keys []string) {
	for _, key := range keys {
		left, err := redis.Int64(s.server.Try(s, "PTTL", key))
		require.NoError(s, err)
		require.NotEqual(s, int64(-1), left, "%s stays for ever", key)
		require.LessOrEqual(s, left, int64(12000), key)
	}
}

func (s *storm) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, n := range s.counts {
		s.Logf("%8d %s", n, what)
	}
}
