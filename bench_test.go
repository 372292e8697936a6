package relock_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// BenchmarkPair times lock and unlock of one goroutine, beside a redigo pool
// that sends the same two commands and does nothing else. The figures of one
// run can be compared. "ratio" is pairs per second against the raw pool, the
// median over blocks that take turns with it.
func BenchmarkPair(b *testing.B) {
	s := redistest.StartTCP(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	client := locktest.NewTestClient(b, s, relock.WithKeyPrefix("relock:"))
	plain := relock.NewRedisLock("plain", client)
	fixed := relock.NewRedisLock("fixed", client, relock.WithExpiry(30*time.Second))
	reentrant := relock.NewReentrantLock("reentrant", client)
	for _, bench := range []struct {
		name string
		ctx  context.Context
		lock relock.Mutex
	}{
		{"RedisLock/watchdog", context.Background(), plain},
		{"RedisLock/watchdog,cancellable", ctx, plain},
		{"RedisLock/fixed", context.Background(), fixed},
		{"ReentrantLock/watchdog", context.Background(), reentrant},
	} {
		b.Run(bench.name, func(b *testing.B) {
			raw := newRawPairs(b, s)
			b.ReportAllocs()
			var ours, theirs []time.Duration
			n := 0
			for start := time.Now(); b.Loop(); {
				require.NoError(b, bench.lock.Lock(bench.ctx))
				require.NoError(b, bench.lock.Unlock(bench.ctx))
				if n++; n%blockOfPairs == 0 {
					ours = append(ours, time.Since(start))
					b.StopTimer()
					theirs = append(theirs, raw())
					b.StartTimer()
					start = time.Now()
				}
			}
			report(b, ours, theirs)
		})
	}
}

// BenchmarkCrowd times lock and unlock of 256 goroutines with a key each. The
// share of the suspend check is in its profile:
//
//	go test -run '^$' -bench Crowd -benchtime 40x -cpuprofile cpu.out .
//	go tool pprof -top -cum -nodefraction 0 cpu.out | grep -E 'suspend'
func BenchmarkCrowd(b *testing.B) {
	const crowd = 256
	client := locktest.NewTestClient(b, redistest.StartTCP(b), relock.WithKeyPrefix("relock:"))
	b.ReportAllocs()
	for b.Loop() {
		var all sync.WaitGroup
		for n := range crowd {
			lock := relock.NewRedisLock(strconv.Itoa(n), client)
			all.Go(func() {
				for range blockOfPairs {
					assert.NoError(b, lock.Lock(context.Background()))
					assert.NoError(b, lock.Unlock(context.Background()))
				}
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(b.N)*crowd*blockOfPairs/b.Elapsed().Seconds(), "pairs/s")
}

// A pair of lock and unlock costs little memory, also with a lock that is made
// for it, as a handler does. The limits are a bit above what was seen: 20
// objects and 1,496 bytes, 24 and 1,856, and 31 and 2,040. Some ten of them are
// the arguments, which redigo takes as interface values, and two are wrappers
// of redigo's pool.
func TestMemoryOfAPair(t *testing.T) {
	client := locktest.NewTestClient(t, redistest.StartTCP(t), relock.WithBlock())
	for name, tt := range map[string]struct {
		lock           func() relock.Mutex
		objects, bytes uint64
	}{
		"plain":            {kept(relock.NewRedisLock("plain", client)), 22, 1550},
		"plain, made anew": {func() relock.Mutex { return relock.NewRedisLock("anew", client) }, 26, 1920},
		"reentrant":        {kept(relock.NewReentrantLock("reentrant", client)), 33, 2110},
	} {
		pairs := func(n uint64) (objects, bytes uint64) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range n {
				lock := tt.lock()
				require.NoError(t, lock.Lock(t.Context()))
				require.NoError(t, lock.Unlock(t.Context()))
			}
			runtime.ReadMemStats(&after)
			return (after.Mallocs - before.Mallocs) / n, (after.TotalAlloc - before.TotalAlloc) / n
		}
		objects, bytes := pairs(100) // which connect
		for range 5 {                // the background of a busy machine adds to some
			o, b := pairs(400)
			objects, bytes = min(objects, o), min(bytes, b)
		}
		require.LessOrEqual(t, objects, tt.objects, "%s: %d objects, %d bytes", name, objects, bytes)
		require.LessOrEqual(t, bytes, tt.bytes, "%s: %d objects, %d bytes", name, objects, bytes)
	}
}

func kept(l relock.Mutex) func() relock.Mutex { return func() relock.Mutex { return l } }

// report gives the medians over all blocks, and of the ratios of blocks that
// ran side by side.
func report(b *testing.B, ours, theirs []time.Duration) {
	if len(ours) == 0 {
		return
	}
	var rate, rawRate, ratio []float64
	for i := range ours {
		rate = append(rate, blockOfPairs/ours[i].Seconds())
		rawRate = append(rawRate, blockOfPairs/theirs[i].Seconds())
		ratio = append(ratio, theirs[i].Seconds()/ours[i].Seconds())
	}
	b.ReportMetric(locktest.Median(ratio), "ratio")
	b.ReportMetric(locktest.Median(rate), "pairs/s")
	b.ReportMetric(locktest.Median(rawRate), "raw-pairs/s")
}

// blockOfPairs is how many pairs each side makes before the other has its turn,
// so that a noisy moment hits both.
const blockOfPairs = 200

// newRawPairs returns what makes a block of pairs as a careful user writes them
// by hand: SET NX PX and a script that compares and deletes, over a redigo
// pool.
func newRawPairs(b *testing.B, s *redistest.Server) func() time.Duration {
	pool := &redis.Pool{MaxIdle: 10, IdleTimeout: time.Minute, Dial: func() (redis.Conn, error) {
		return redis.Dial(s.Network, s.Address, redis.DialReadTimeout(3*time.Second), redis.DialWriteTimeout(3*time.Second))
	}}
	b.Cleanup(func() { require.NoError(b, pool.Close()) })
	release := redis.NewScript(1,
		"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")
	do := func(command func(redis.Conn) (any, error)) {
		conn := pool.Get()
		defer conn.Close() //nolint:errcheck // the command's error counts
		_, err := command(conn)
		require.NoError(b, err)
	}
	return func() time.Duration {
		start := time.Now()
		for range blockOfPairs {
			id := uuid.NewString()
			do(func(conn redis.Conn) (any, error) { return conn.Do("SET", "raw", id, "PX", 30000, "NX") })
			do(func(conn redis.Conn) (any, error) { return release.Do(conn, "raw", id) })
		}
		return time.Since(start)
	}
}
