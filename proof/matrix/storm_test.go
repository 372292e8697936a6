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
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Storms: clients of all sorts do everything, at random, under faults at
// random. No two holds of a lock are valid together. Within seconds of a pause
// nothing is left: no key, no entry in a table, no connection in use.

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
	gate    sync.RWMutex                           // held by operations; taken for quiet moments
	holders [stormKeys]atomic.Pointer[relock.Hold] // who works under the lock
	granted atomic.Int64
}

// newStorm has a client with a separate pool, one with a full one, and one
// with a pool of the user's.
func newStorm(t testing.TB, s *redistest.Server) *storm {
	limit := relock.WithCommandTimeout(300 * time.Millisecond)
	pool := &redis.Pool{MaxIdle: 5, MaxActive: 20, Wait: true, Dial: func() (redis.Conn, error) {
		return redis.Dial(s.Network, s.Address, redis.DialReadTimeout(time.Second))
	}}
	t.Cleanup(func() { _ = pool.Close() }) // only to end its connections
	return &storm{TB: t, server: s, clients: []*relock.Client{
		locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, "", limit)),
		locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address,
			"", limit, relock.WithMaxActive(stormWorkers), relock.WithWaitMode())),
		locktest.CloseLater(t)(relock.NewClientPool(pool, limit)),
	}}
}

// work does one thing under the hold of key k, and checks that no other hold is
// valid.
func (s *storm) work(k int, h relock.Hold, f func()) {
	s.granted.Add(1)
	if before := s.holders[k].Swap(&h); before != nil && (*before).Err() == nil && h.Err() == nil {
		s.Errorf("two have valid holds of key %d", k)
	}
	f()
	s.holders[k].CompareAndSwap(&h, nil)
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

func stormOptions() []relock.LockOption {
	lease := []time.Duration{200, 500, 1000, 20_000}[rand.IntN(4)] * time.Millisecond
	opts := []relock.LockOption{relock.WithWatchdog(lease)}
	if rand.IntN(3) == 0 {
		opts[0] = relock.WithExpiry(lease)
	}
	if rand.IntN(2) == 0 {
		opts = append(opts, relock.WithBlockTimeout(1+rand.N(500*time.Millisecond)))
	}
	if rand.IntN(6) == 0 {
		opts = append(opts, relock.WithMaxHold(time.Millisecond+rand.N(100*time.Millisecond)))
	}
	return opts
}

// linger passes some time, usually none.
func linger() {
	switch rand.IntN(10) {
	case 0:
		time.Sleep(rand.N(300 * time.Millisecond))
	case 1, 2, 3:
		time.Sleep(rand.N(3 * time.Millisecond))
	}
}

func (s *storm) do(ctx context.Context, k int, l *relock.RedisLock) {
	_ = l.Do(ctx, func(ctx context.Context) error {
		h, _ := relock.HoldFromContext(ctx, stormKey(k))
		s.work(k, h, linger)
		return nil
	})
}

func (s *storm) plain(ctx context.Context, k int, l *relock.RedisLock) {
	h, err := l.Acquire(ctx)
	if err != nil {
		return
	}
	s.work(k, h, func() {
		linger()
		if rand.IntN(3) == 0 {
			_ = h.Extend(ctx, 300*time.Millisecond)
		}
	})
	_ = h.Unlock(ctx)
}

func (s *storm) reentrant(ctx context.Context, k int, c *relock.Client) {
	h, err := relock.NewReentrantLock(stormKey(k), c, stormOptions()...).Acquire(ctx)
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
	})
	_ = h.Unlock(ctx)
}

// levels goes deeper and back a few times.
func (s *storm) levels(ctx context.Context, k int, c *relock.Client) {
	for range rand.IntN(4) {
		ctx, cancel := context.WithTimeout(ctx, rand.N(200*time.Millisecond))
		h, err := relock.NewReentrantLock(stormKey(k), c, stormOptions()...).Acquire(ctx)
		if err == nil {
			linger()
			_ = h.Unlock(ctx)
			if err := h.Unlock(ctx); !errors.Is(err, relock.ErrNotHeld) {
				s.Errorf("unlocked twice: %v", err)
			}
		}
		cancel()
	}
}

// rage lets all clients work until the end, while trouble makes some at random.
func (s *storm) rage(length time.Duration, trouble func()) {
	var stop atomic.Bool
	var group sync.WaitGroup
	for _, c := range s.clients {
		var shared []*relock.RedisLock
		for k := range stormKeys / 2 {
			shared = append(shared, relock.NewRedisLock(stormKey(k), c,
				relock.WithWatchdog(20*time.Second), relock.WithBlockTimeout(400*time.Millisecond)))
		}
		for range stormWorkers {
			group.Go(func() {
				for !stop.Load() {
					s.gate.RLock()
					s.operation(c, shared)
					s.gate.RUnlock()
				}
			})
		}
	}
	quiet := time.Now().Add(length / 4)
	for end := time.Now().Add(length); time.Now().Before(end); {
		trouble()
		if time.Now().After(quiet) {
			s.quiet()
			quiet = time.Now().Add(min(length/4, 5*time.Second))
		}
	}
	stop.Store(true)
	group.Wait()
	s.quiet()
	require.Positive(s, s.granted.Load())
}

// quiet waits for all operations, and then checks that nothing is left of them.
func (s *storm) quiet() {
	s.gate.Lock()
	defer s.gate.Unlock()
	start, watch, left := time.Now(), testkit.NewStopwatch(s), ""
	for locks := s.locks(); len(locks) > 0; locks = s.locks() {
		if left == "" && time.Since(start) > stormSettles {
			left = s.describe(locks)
		}
		require.Less(s, time.Since(start), testkit.Patience, left)
		time.Sleep(time.Millisecond)
	}
	watch.Within(stormSettles, left)
	watch.Net() // stops it
	for _, c := range s.clients {
		require.Zero(s, c.Stats().Held, "holds")
	}
	locktest.Occupy(s, s.server, s.clients[1], stormWorkers)() // no call has kept a connection
}

// longestPause is the longest pause between two sendings of a release.
const longestPause = 800 * time.Millisecond

// stormSettles is how long a lock may stay after several faults in a row: the
// pause of a release that was tried before, a connection on which it is not
// answered, a hand-off to a call that has ended and whose subscription is
// silent.
const stormSettles = longestPause + background.RetryLimit + 1250*time.Millisecond

// describe returns locks that are left.
func (s *storm) describe(locks []string) (text string) {
	for _, key := range locks {
		left, _ := s.server.Try(s, "PTTL", key)
		text += fmt.Sprintf("%s is left for %v ms: %s; queue: %s\n",
			key, left, s.server.Content(s, key), s.server.Content(s, key+":q"))
	}
	return text
}

// locks returns the keys of locks at the server. What is left of queues, as a
// poll that was overtaken may leave it, expires.
func (s *storm) locks() (locks []string) {
	keys, err := redis.Strings(s.server.Try(s, "KEYS", "*"))
	require.NoError(s, err)
	for _, key := range keys {
		if strings.HasSuffix(key, "}") {
			locks = append(locks, key)
			continue
		}
		left, err := redis.Int64(s.server.Try(s, "PTTL", key))
		require.NoError(s, err)
		require.NotEqual(s, int64(-1), left, "%s stays for ever", key)
		require.LessOrEqual(s, left, int64(12000), key)
	}
	return locks
}

// A server that is killed and comes back, stands still, forgets its scripts, is
// out of memory, cuts connections.
func TestStormAtTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	storm := newStorm(t, s)
	troubles := []func(){
		func() { s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") },
		func() { s.Do(t, "SCRIPT", "FLUSH") },
		func() {
			s.Pause(t)
			time.Sleep(rand.N(1200 * time.Millisecond))
			s.Resume(t)
		},
		func() {
			s.Kill(t)
			time.Sleep(rand.N(300 * time.Millisecond))
			s.BootAndLoad(t)
		},
		func() {
			s.Do(t, "CONFIG", "SET", "maxmemory", "1")
			time.Sleep(rand.N(200 * time.Millisecond))
			s.Do(t, "CONFIG", "SET", "maxmemory", "0")
		},
	}
	storm.rage(stormLength(t), func() {
		time.Sleep(rand.N(400 * time.Millisecond))
		troubles[rand.IntN(len(troubles))]()
	})
}
