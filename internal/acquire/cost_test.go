package acquire_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// costLimit is the longest that a script may keep the server busy. Scripts
// always do the same, so the fastest of several runs of each counts: the rest
// is the machine's.
const costLimit = time.Millisecond

// costServer returns a server that notes the duration of each command.
func costServer(t testing.TB) *redistest.Server {
	s := locktest.WithScripts(t, redistest.Start(t))
	s.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 100_000)
	return s
}

// run is one run of a script.
type run struct {
	digest string
	took   time.Duration
}

// runs returns the runs of scripts since SLOWLOG RESET, the newest first.
func runs(t testing.TB, s *redistest.Server) (all []run) {
	t.Helper()
	entries, err := redis.Values(s.Do(t, "SLOWLOG", "GET", -1), nil)
	require.NoError(t, err)
	for _, entry := range entries {
		fields := entry.([]any)
		words, err := redis.Strings(fields[3], nil)
		require.NoError(t, err)
		if words[0] == "EVALSHA" {
			all = append(all, run{words[1], time.Duration(fields[2].(int64)) * time.Microsecond})
		}
	}
	return all
}

// The largest lock keeps no server busy for long.
func TestMultiLockOfAHundredKeysIsFast(t *testing.T) {
	keys := locktest.Numbered("account:", 100)
	for name, opts := range map[string][]relock.LockOption{"plain": nil, "fenced": {relock.WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			b := locktest.BenchOn(t, costServer(t))
			best := map[string]time.Duration{} // of each script
			l := relock.NewMultiLock(keys, b.Client, append(opts, relock.WithWatchdog(time.Hour))...)
			require.NoError(t, l.Do(t.Context(), locktest.Nothing)) // the server knows the fenced scripts now
			for range 30 {
				b.Server.Do(t, "SLOWLOG", "RESET")
				for range 10 { // a server that was idle for a second is slow at first
					require.NoError(t, l.Do(t.Context(), locktest.Nothing))
				}
				h := locktest.Take(t, l.Acquire)
				locktest.RenewGroup(t, h)
				require.NoError(t, h.Unlock(t.Context()))
				for _, r := range runs(t, b.Server) {
					best[r.digest] = min(r.took, cmp.Or(best[r.digest], r.took))
				}
				if slowest(best) < costLimit {
					break
				}
			}
			t.Logf("the fastest run of each script: %v", best)
			require.Len(t, best, 3, "acquire, renew, release")
			require.Less(t, slowest(best), costLimit)
			b.RequireNothingLeft(keys...)
		})
	}
}

func slowest(best map[string]time.Duration) time.Duration {
	return slices.Max(slices.Collect(maps.Values(best)))
}

// A thousand levels of a reentrant or a read/write lock make no slow script.
func TestThousandLevelsAreFast(t *testing.T) {
	const levels = 1000
	b := locktest.BenchOn(t, costServer(t))
	lease := relock.WithExpiry(5 * time.Minute) // no renewal comes between
	for name, l := range map[string]relock.Mutex{
		"ReentrantLock": relock.NewReentrantLock("reentrant", b.Client, lease),
		"RWLock":        relock.NewRWLock("rw", b.Client, lease),
	} {
		t.Run(name, func(t *testing.T) {
			best := slices.Repeat([]time.Duration{time.Hour}, 2*levels) // of each script over all rounds, which do the same
			for range 10 {
				b.Server.Do(t, "SLOWLOG", "RESET")
				for range levels {
					require.NoError(t, l.Lock(t.Context()))
				}
				for range levels {
					require.NoError(t, l.Unlock(t.Context()))
				}
				require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
				all := runs(t, b.Server)
				require.Len(t, all, len(best))
				for n := range best {
					best[n] = min(best[n], all[n].took)
				}
				if slices.Max(best) < costLimit {
					break
				}
			}
			t.Logf("the slowest script: %v", slices.Max(best))
			require.Zero(t, b.Client.Stats().Held)
			require.Less(t, slices.Max(best), costLimit)
		})
	}
}
