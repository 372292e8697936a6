package acquire_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// costLimit is the longest that a script may keep the server busy. Scripts
// always do the same, so the fastest of several runs counts: the rest is the
// machine's.
const costLimit = time.Millisecond

// costServer returns a server that notes the duration of each command.
func costServer(t testing.TB) *redistest.Server {
	s := locktest.WithScripts(t, redistest.Start(t))
	s.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 100_000)
	return s
}

// durations returns how long each script took since SLOWLOG RESET, the newest
// first.
func durations(t testing.TB, s *redistest.Server) (all []time.Duration) {
	t.Helper()
	entries, err := redis.Values(s.Do(t, "SLOWLOG", "GET", -1), nil)
	require.NoError(t, err)
	for _, entry := range entries {
		fields := entry.([]any)
		words, err := redis.Strings(fields[3], nil)
		require.NoError(t, err)
		if words[0] == "EVALSHA" {
			all = append(all, time.Duration(fields[2].(int64))*time.Microsecond)
		}
	}
	return all
}

// The largest lock keeps no server busy for long.
func TestMultiLockOfAHundredKeysIsFast(t *testing.T) {
	var keys []string
	for n := range 100 {
		keys = append(keys, fmt.Sprintf("account:%03d", n))
	}
	for name, opts := range map[string][]relock.LockOption{"plain": nil, "fenced": {relock.WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			b := benchOn(t, costServer(t))
			l := relock.NewMultiLock(keys, b.client, append(opts, relock.WithWatchdog(3*time.Second))...)
			require.NoError(t, l.Do(t.Context(), locktest.Nothing)) // the server knows the fenced scripts now
			var best []time.Duration
			for range 30 {
				b.server.Do(t, "SLOWLOG", "RESET")
				h := take(t, l.Acquire)
				locktest.AwaitRenewal(t, h, 5*time.Second)
				require.NoError(t, h.Unlock(t.Context()))
				best = append(best, slices.Max(durations(t, b.server)))
				if slices.Min(best) < costLimit {
					break
				}
			}
			t.Logf("the slowest script of each round: %v", best)
			require.Less(t, slices.Min(best), costLimit)
			b.requireNothingLeft(keys...)
		})
	}
}

// Nor do a thousand levels of a reentrant or a read/write lock.
func TestThousandLevelsAreFast(t *testing.T) {
	const levels = 1000
	b := benchOn(t, costServer(t))
	lease := relock.WithExpiry(5 * time.Minute) // no renewal comes between
	for name, l := range map[string]relock.Mutex{
		"ReentrantLock": relock.NewReentrantLock("reentrant", b.client, lease), "RWLock": relock.NewRWLock("rw", b.client, lease),
	} {
		t.Run(name, func(t *testing.T) {
			best := slices.Repeat([]time.Duration{time.Hour}, 2*levels) // of each script over all rounds, which do the same
			for range 10 {
				b.server.Do(t, "SLOWLOG", "RESET")
				for range levels {
					require.NoError(t, l.Lock(t.Context()))
				}
				for range levels {
					require.NoError(t, l.Unlock(t.Context()))
				}
				require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
				took := durations(t, b.server)
				require.Len(t, took, len(best))
				for n := range best {
					best[n] = min(best[n], took[n])
				}
				if slices.Max(best) < costLimit {
					break
				}
			}
			t.Logf("the slowest script: %v", slices.Max(best))
			require.Zero(t, locktest.Engine(b.client).State().Owners)
			require.Zero(t, locktest.Engine(b.client).State().Leases)
			require.Less(t, slices.Max(best), costLimit)
		})
	}
}
