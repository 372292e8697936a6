package relock

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// A clock that is set back while a script runs, at any of its readings, leaves no key without an expiry. Redis before 7.2 takes
// one that was set after the jump for over: what the script writes to the key then makes it anew.
func TestClockIsSetBackWithinAScript(t *testing.T) {
	t.Parallel()
	all := scriptsWithExpiry()
	names, least := slices.Sorted(maps.Keys(all)), int64(500)
	if !allCells() {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names, least = names[:len(names)/3], 100
		t.Logf("a third of the scripts: %v", names)
	}
	var jumps atomic.Int64
	var cells []cellRun
	for some := range slices.Chunk(names, len(names)/4+1) {
		s, clock := redistest.StartWithClock(t)
		cells = append(cells, cellRun{"from " + some[0], func(t testing.TB) {
			b := newScriptBench(t, s)
			for _, name := range some {
				jumps.Add(int64(b.setBackWithin(clock, name, all[name])))
			}
		}})
	}
	together(t, cells)
	require.Greater(t, jumps.Load(), least)
}

// setBackWithin runs the last of the scripts again and again, and sets the clock back at one more reading each time. It returns how often
// that was.
func (b *scriptBench) setBackWithin(clock *redistest.Clock, name string, scripts []script.Call) (jumps int) {
	const jump = 10 * time.Minute
	last := len(scripts) - 1
	for reading, past := 1, 0; past < 3; reading++ { // what the server reads beside the script differs by a few
		b.do("FLUSHALL")
		for _, s := range scripts[:last] {
			_, err := b.try(s)
			require.NoError(b, err, name)
		}
		clock.AdvanceAtReading(b, reading, -jump)
		_, err := b.try(scripts[last])
		require.NoError(b, err, name)
		if !clock.Settle(b) {
			past++
			continue
		}
		jumps++
		b.requireExpiries(name, reading)
		clock.Advance(b, jump)
	}
	return jumps
}

func (b *scriptBench) requireExpiries(name string, reading int) {
	b.Helper()
	keys, err := redis.Strings(b.do("KEYS", "*"), nil)
	require.NoError(b, err)
	for _, key := range keys {
		require.NotEqual(b, int64(-1), b.do("PTTL", key), "%s, set back at reading %d: %s %s stays for ever", name, reading, key, b.content(key))
	}
}

// scriptsWithExpiry are scripts that set an expiry, each the last of its list, behind what makes its case.
func scriptsWithExpiry() map[string][]script.Call {
	taken := script.Call{Script: script.ReentrantAcquire, Args: []any{"o", "h", 60_000, "info"}}
	all := map[string][]script.Call{
		"acquire":           {{Script: script.Acquire.Fenced, Args: []any{plain1, "", 60_000}}},
		"reentrant acquire": {{Script: script.ReentrantAcquire.Fenced, Args: []any{"o", "h", 60_000, "info"}}},
		"reentrant enter":   {taken, {Script: script.ReentrantEnter, Args: []any{"o", "h", 2, 2, 3_600_000}}},
		"reentrant renew":   {taken, {Script: script.ReentrantRenew, Args: []any{"h", 3_600_000}}},
		"redlock, taken":    {{Script: script.Acquire, Args: []any{plain2, "", 60_000}}, {Script: script.RedLockWait, Args: []any{plain1, 60_000, 0, "c1:1:q", 400}}},
	}
	for _, letters := range []string{"pu", "pf", "ru", "rf"} {
		first, w, next := waitNamed("c9", 1, letters), waitNamed("c1", 1, letters), waitNamed("c1", 2, letters)
		kept := script.Call{Script: script.Release, Args: []any{first.body(), 1000, "relock/1|k|kept"}}
		if letters[0] == 'r' {
			kept = script.Call{Script: script.ReentrantRelease, Args: []any{first.body(), first.hold(), 0, 2, 1000}}
		}
		all[letters+" try"] = []script.Call{first.try()}
		all[letters+" kept"] = []script.Call{first.try(), kept}
		all[letters+" enqueue"] = []script.Call{first.try(), w.enqueue()}
		all[letters+" enqueue another"] = []script.Call{first.try(), w.enqueue(), next.enqueue()}
		all[letters+" poll"] = []script.Call{first.try(), w.enqueue(), pollAs("c1")}
		all[letters+" poll, put back"] = []script.Call{first.try(), pollAs("c1", string(w), "1000")}
		all[letters+" release"] = []script.Call{first.try(), w.enqueue(), pollAs("c1"), first.release()}
	}
	for _, letters := range []string{"su", "sf", "wu", "wf"} {
		first, w := rwWaitNamed("c9", 1, "w"+letters[1:]), rwWaitNamed("c1", 1, letters)
		all[letters+" try"] = []script.Call{first.try()}
		all[letters+" enter"] = []script.Call{first.try(), first.enter(1, 1, 2, time.Hour)}
		all[letters+" renew"] = []script.Call{first.try(), first.renew(time.Hour)}
		all[letters+" downgrade"] = []script.Call{first.try(), first.enter(1, 1, 2, time.Hour), w.enqueue(), first.leave(1, 0, 3)}
		all[letters+" enqueue"] = []script.Call{first.try(), w.enqueue()}
		all[letters+" poll"] = []script.Call{first.try(), w.enqueue(), rwPollAs("c1")}
		all[letters+" poll, put back"] = []script.Call{first.try(), rwPollAs("c1", string(w.scriptWait), "1000")}
		all[letters+" release"] = []script.Call{first.try(), w.enqueue(), rwPollAs("c1"), first.release()}
	}
	return all
}
