package acquire_test

import (
	"context"
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

// The largest lock keeps no server busy for long: no script takes 1ms.
func TestMultiLockOfAHundredKeysIsFast(t *testing.T) {
	for name, opts := range map[string][]relock.LockOption{"plain": nil, "fenced": {relock.WithFencing()}} {
		t.Run(name, func(t *testing.T) { hundredKeys(t, opts...) })
	}
}

func hundredKeys(t *testing.T, opts ...relock.LockOption) {
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	var keys []string
	for n := range 100 {
		keys = append(keys, fmt.Sprintf("account:%03d", n))
	}
	l := relock.NewMultiLock(keys, c, append(opts, relock.WithWatchdog(3*time.Second))...)
	require.NoError(t, l.Do(t.Context(), locktest.Nothing)) // the server knows the scripts now
	s.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 100_000)
	var best []time.Duration
	for range 30 {
		s.Do(t, "SLOWLOG", "RESET")
		h, err := l.Acquire(t.Context())
		require.NoError(t, err)
		locktest.AwaitRenewal(t, h, 5*time.Second)
		require.NoError(t, h.Unlock(t.Context()))
		best = append(best, slices.Max(durations(t, s)))
		if slices.Min(best) < time.Millisecond {
			break
		}
	}
	t.Logf("the slowest script of each round: %v", best)
	require.Less(t, slices.Min(best), time.Millisecond) // the scripts always do the same: what is on top of that is the machine's
	locktest.RequireNoQueues(t, s, c, keys...)
}

// Nor does a thousand levels of a reentrant or a read/write lock.
func TestThousandLevelsAreFast(t *testing.T) {
	for name, newLock := range map[string]func(*relock.Client, ...relock.LockOption) relock.Mutex{
		"ReentrantLock": func(c *relock.Client, opts ...relock.LockOption) relock.Mutex {
			return relock.NewReentrantLock("k", c, opts...)
		},
		"RWLock": func(c *relock.Client, opts ...relock.LockOption) relock.Mutex {
			return relock.NewRWLock("k", c, opts...)
		},
	} {
		t.Run(name, func(t *testing.T) { thousandLevels(t, newLock) })
	}
}

func thousandLevels(t *testing.T, newLock func(*relock.Client, ...relock.LockOption) relock.Mutex) {
	const levels = 1000
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	l := newLock(c, relock.WithExpiry(5*time.Minute))       // no renewal comes between
	require.NoError(t, l.Do(t.Context(), locktest.Nothing)) // the server knows the scripts now
	require.NoError(t, l.Do(t.Context(), func(ctx context.Context) error { return l.Do(ctx, locktest.Nothing) }))
	s.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 100_000)
	best := slices.Repeat([]time.Duration{time.Hour}, 2*levels) // of each script over all rounds, which do the same
	for range 10 {
		s.Do(t, "SLOWLOG", "RESET")
		for range levels {
			require.NoError(t, l.Lock(t.Context()))
		}
		for range levels {
			require.NoError(t, l.Unlock(t.Context()))
		}
		took := durations(t, s)
		require.Len(t, took, len(best))
		for n := range best {
			best[n] = min(best[n], took[n])
		}
		if slices.Max(best) < time.Millisecond {
			break
		}
	}
	t.Logf("the slowest script: %v", slices.Max(best))
	require.Less(t, slices.Max(best), time.Millisecond) // what single ones take on top of that is the machine's
}

// durations is how long each script took since SLOWLOG RESET, the newest first.
func durations(t testing.TB, s *redistest.Server) (all []time.Duration) {
	t.Helper()
	entries, err := redis.Values(s.Do(t, "SLOWLOG", "GET", -1), nil)
	require.NoError(t, err)
	for _, entry := range entries {
		fields, err := redis.Values(entry, nil)
		require.NoError(t, err)
		us, err := redis.Int64(fields[2], nil)
		require.NoError(t, err)
		words, err := redis.Strings(fields[3], nil)
		require.NoError(t, err)
		if words[0] == "EVALSHA" {
			all = append(all, time.Duration(us)*time.Microsecond)
		}
	}
	return all
}
