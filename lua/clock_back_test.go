package lua_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A clock that is set back while a script runs, at any of its readings, leaves
// no key without an expiry. Redis before 7.2 takes one that was set after the
// jump for over: what the script writes to the key then makes it anew.
func TestClockIsSetBackWithinAScript(t *testing.T) {
	t.Parallel()
	all := scriptsWithExpiry()
	names, least := slices.Sorted(maps.Keys(all)), int64(500)
	if !locktest.FullLength() {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names, least = names[:len(names)/6], 50
		t.Logf("a sixth of the scripts: %v", names)
	}
	var jumps atomic.Int64
	var cells []locktest.Subtest
	for some := range slices.Chunk(names, len(names)/4+1) {
		s, clock := redistest.StartWithClock(t)
		cells = append(cells, locktest.Subtest{Name: "from " + some[0], Run: func(t testing.TB) {
			b := NewBench(t, s)
			for _, name := range some {
				jumps.Add(setBackWithin(b, clock, name, all[name]))
			}
		}})
	}
	locktest.RunTogether(t, cells)
	require.Greater(t, jumps.Load(), least)
}

// setBackWithin runs the last of the scripts repeatedly. Each time it sets the
// clock back one reading later within the script. After each run it checks that
// every key expires. It returns how often the clock was set back.
func setBackWithin(b *Bench, clock *redistest.Clock, name string, scripts []script.Call) (jumps int64) {
	const jump = 10 * time.Minute
	last := len(scripts) - 1
	for reading, past := 1, 0; past < 3; reading++ { // outside the script the number of readings varies by a few
		b.Do("FLUSHALL")
		for _, s := range scripts[:last] {
			_, err := b.Try(s)
			require.NoError(b, err, name)
		}
		clock.AdvanceAtReading(b, reading, -jump)
		_, err := b.Try(scripts[last])
		require.NoError(b, err, name)
		if !clock.Settle(b) {
			past++
			continue
		}
		jumps++
		requireExpiries(b, name, reading)
		clock.Advance(b, jump)
	}
	return jumps
}

func requireExpiries(b *Bench, name string, reading int) {
	b.Helper()
	keys, err := redis.Strings(b.Do("KEYS", "*"), nil)
	require.NoError(b, err)
	for _, key := range keys {
		require.NotEqual(b, int64(-1), b.Do("PTTL", key),
			"%s, set back at reading %d: %s %s stays for ever", name, reading, key, b.Content(key))
	}
}

// scriptsWithExpiry are scripts that set an expiry, each the last of its list,
// behind what makes its case.
func scriptsWithExpiry() map[string][]script.Call {
	taken := script.Call{Script: script.ReentrantAcquire, Args: []any{"o", "h", 60_000, "info"}}
	all := map[string][]script.Call{
		"acquire":           {{Script: script.Acquire.Fenced, Args: []any{Plain1, "", 60_000}}},
		"reentrant acquire": {{Script: script.ReentrantAcquire.Fenced, Args: []any{"o", "h", 60_000, "info"}}},
		"reentrant enter":   {taken, {Script: script.ReentrantEnter, Args: []any{"o", "h", 2, 2, 3_600_000}}},
		"reentrant renew":   {taken, {Script: script.ReentrantRenew, Args: []any{"h", 3_600_000}}},
		"redlock, taken": {{Script: script.Acquire, Args: []any{Plain2, "", 60_000}}, {
			Script: script.RedLockWait, Args: []any{Plain1, 60_000, 0, "c1:1:q", 400},
		}},
	}
	for _, letters := range []string{"pu", "pf", "ru", "rf", "su", "sf", "wu", "wf"} {
		holds := strings.NewReplacer("s", "w").Replace(letters)
		first, w, next := WaitNamed("c9", 1, holds), WaitNamed("c1", 1, letters), WaitNamed("c1", 2, letters)
		for name, calls := range map[string][]script.Call{
			"try":             {first.Try()},
			"enqueue":         {first.Try(), w.Enqueue()},
			"enqueue another": {first.Try(), w.Enqueue(), next.Enqueue()},
			"poll":            {first.Try(), w.Enqueue(), w.Poll()},
			"poll, put back":  {first.Try(), w.Poll(string(w), "1000")},
			"release":         {first.Try(), w.Enqueue(), w.Poll(), first.Release()},
		} {
			all[letters+" "+name] = calls
		}
		switch letters[0] {
		case 'p', 'r':
			all[letters+" kept"] = []script.Call{first.Try(), first.ReleaseAndKeep(time.Second)}
		default:
			enter := first.Enter(1, 1, 2, time.Hour)
			all[letters+" enter"] = []script.Call{first.Try(), enter}
			all[letters+" renew"] = []script.Call{first.Try(), first.Renew(time.Hour)}
			all[letters+" downgrade"] = []script.Call{first.Try(), enter, w.Enqueue(), first.Leave(1, 0, 3)}
		}
	}
	return all
}
