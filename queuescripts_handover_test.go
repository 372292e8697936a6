package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// Whom a lock is handed over to. Client "c1" listens, "c2" and "gone" do not.
func TestQueueScriptHandOver(t *testing.T) {
	const period = scriptPeriod
	fair1, fair2, fair3 := waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf"), waitNamed("c1", 2, "pf")
	unfair1, unfair2 := waitNamed("c1", 1, "pu"), waitNamed("c2", 1, "pu")
	reentrant1 := waitNamed("c1", 1, "rf")
	all := func(members ...scriptWait) []scriptWait { return members }
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name   string
		line   []scriptWait
		beats  map[string]shownBeat
		chosen scriptWait
		left   []scriptWait
	}{
		{"to nobody", nil, nil, nobody, nil},
		{"to the first", all(fair1, fair3), map[string]shownBeat{"c1": {0, 1}}, fair1, all(fair3)},
		{"to a reentrant one", all(reentrant1), map[string]shownBeat{"c1": {0, 1}}, reentrant1, nil},
		{"to an unfair one", all(unfair1, fair3), map[string]shownBeat{"c1": {0, 1}}, unfair1, all(fair3)},
		{"past waits of a client without a beat", all(fair2, fair1, fair3), map[string]shownBeat{"c1": {0, 1}}, fair1, all(fair3)},
		{"past several stale waits", append(staleWaits(5), fair1, fair3), map[string]shownBeat{"c1": {0, 1}, "gone": {3 * period, 1}}, fair1, all(fair3)},
		{"to nobody that lives", staleWaits(5), map[string]shownBeat{"gone": {3 * period, 1}}, nobody, nil},
		{"to a beat of two periods and a half", all(fair1), map[string]shownBeat{"c1": {2500 * time.Millisecond, 1}}, fair1, nil},
		{"not to an older one", all(fair1), map[string]shownBeat{"c1": {2500*time.Millisecond + time.Microsecond, 1}}, nobody, nil},
		{"to a beat from the future", all(fair1), map[string]shownBeat{"c1": {-time.Hour, 1}}, fair1, nil},
		{"not to an unfair one that nobody hears", all(unfair2, unfair1), map[string]shownBeat{"c1": {0, 1}, "c2": {0, 1}}, unfair1, nil},
		{"to a fair one that nobody hears at the moment", all(fair2, fair1), map[string]shownBeat{"c1": {0, 1}, "c2": {period, 1}}, fair2, all(fair1)},
		{"not to a fair one that is not heard of either", all(fair2, fair1), map[string]shownBeat{"c1": {0, 1}, "c2": {period + time.Microsecond, 1}}, fair1, nil},
		{"not to an unfair one that is not heard of either", all(unfair2, fair1), map[string]shownBeat{"c1": {0, 1}, "c2": {period + time.Microsecond, 1}}, fair1, nil},
		{"to an old beat when it is heard", all(fair1, fair2), map[string]shownBeat{"c1": {2 * period, 1}, "c2": {0, 1}}, fair1, all(fair2)},
		{"to an unfair one whose subscription the server cannot see", all(unfair2, fair1), map[string]shownBeat{"c1": {0, 1}, "c2": {2 * period, 0}}, unfair2, all(fair1)},
		{"to a fair one whose subscription the server cannot see", all(fair2, fair1), map[string]shownBeat{"c1": {0, 1}, "c2": {2 * period, 0}}, fair2, all(fair1)},
		{"not to a stale one whose subscription the server cannot see", all(fair2, fair1), map[string]shownBeat{"c1": {0, 1}, "c2": {3 * period, 0}}, fair1, nil},
		{"past all waits of a client found gone", all(unfair2, fair2, fair1), map[string]shownBeat{"c1": {0, 1}, "c2": {0, 1}}, fair1, nil},
		{"past what is no wait", all("text", "", "c1", "c1:1:xx:500", "c1:1:pf:0", "c1:x:pf:500", "c1:1:pf:500:", "c1:1:pf:9999999999999999999", fair1), map[string]shownBeat{"c1": {0, 1}}, fair1, nil},
		{"past what is no wait, to nobody", all("", "text"), map[string]shownBeat{"c1": {0, 1}}, nobody, nil},
	} {
		for how, holder := range map[string]scriptWait{"release": waitNamed("c9", 1, "pf"), "reentrant_release": waitNamed("c9", 1, "rf")} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				b := newQueueScripts(t, s)
				l := b.listen(s, "c1")
				require.Equal(t, "1", b.code(holder.try()))
				b.show(tt.beats)
				b.line(time.Minute, tt.line...)
				require.Equal(t, "1", b.code(holder.release()))
				b.requireHandedTo(tt.chosen, tt.left)
				if tt.chosen != nobody && tt.chosen.client() == "c1" {
					require.Equal(t, []string{string(tt.chosen) + " " + b.key}, l.heard())
				} else {
					require.Empty(t, l.heard())
				}
			})
		}
	}
}

// requireHandedTo checks that the lock is reserved for the wait, or free, and who still waits.
func (b *queueScripts) requireHandedTo(chosen scriptWait, left []scriptWait) {
	b.Helper()
	want := []string{}
	for _, w := range left {
		want = append(want, string(w))
	}
	require.Equal(b, want, b.waits())
	if chosen == nobody {
		require.Empty(b, b.lock())
		if len(left) == 0 {
			require.Equal(b, int64(0), b.do("EXISTS", b.beats()), "nobody waits, and the beats are still there")
		}
		return
	}
	require.Equal(b, chosen.reserved(), b.lock())
	require.LessOrEqual(b, b.state().ttl, scriptClaim, "longer than the claim lease")
	require.Greater(b, b.state().ttl, scriptClaim-scriptSlack)
}

// Everything that finds a lock free, or frees it, hands it over.
func TestQueueScriptHandOverByAll(t *testing.T) {
	first, second := waitNamed("c1", 1, "pf"), waitNamed("c1", 2, "pf")
	other, holder := waitNamed("c2", 1, "pf"), waitNamed("c9", 1, "pf")
	listed := waitNamed("c2", 1, "pf")
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name   string
		script script.Call
		held   string // what the lock is before, "" for free
		answer string
		left   []scriptWait
	}{
		{"try", other.try(), "", "0", nil},
		{"enqueue", other.enqueue(), "", "0", []scriptWait{other}},
		{"claim of one that is not queued", other.claim(), "", "3", nil},
		{"cancel, free", other.cancel(0), "", "1", nil},
		{"cancel, free, with the hold", other.cancel(1), "", "1", nil},
		{"cancel for nobody", nobody.cancel(0), "", "1", nil},
		{"cancel, reserved", other.cancel(0), other.reserved(), "1", nil},
		{"cancel, held", other.cancel(1), other.held(), "1", nil},
		{"poll", pollAs("c2"), "", "1", nil},
		{"poll of waits", pollAs("c2", string(listed), "9999999999999999"), "", "1", []scriptWait{listed}},
		{"poll of its own", pollAs("c1"), "", "1", nil},
		{"release", holder.release(), holder.held(), "1", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newQueueScripts(t, s)
			l := b.listen(s, "c1")
			b.show(map[string]shownBeat{"c1": {0, 1}})
			b.line(time.Minute, first, second)
			if tt.held != "" {
				b.do("SET", b.key, tt.held, "PX", 20_000)
			}
			answer := b.ask(tt.script)
			require.Equal(t, tt.answer, answer[0])
			b.requireHandedTo(first, append([]scriptWait{second}, tt.left...))
			require.Contains(t, l.heard(), string(first)+" "+b.key)
			if tt.script.Script == script.Poll {
				require.Equal(t, tt.name == "poll of its own", answer[1] == string(first), "only its own waits are named")
			}
		})
	}
}

// A hold that is kept is handed over when its keep is over, and an inner release hands over nothing.
func TestQueueScriptHandOverAfterAKeep(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		t.Run(letters, func(t *testing.T) {
			b := newQueueScripts(t, s)
			holder, w := waitNamed("c9", 1, letters), waitNamed("c1", 1, letters)
			over := script.Call{Script: script.Release, Args: []any{holder.body(), 0, "relock/1|k"}}
			keep := script.Call{Script: script.Release, Args: []any{holder.body(), 5000, "relock/1|k"}}
			if letters[0] == 'r' {
				over = holder.release()
				keep = script.Call{Script: script.ReentrantRelease, Args: []any{holder.body(), holder.hold(), 0, 2, 5000}}
			}
			require.Equal(t, "1", b.code(holder.try()))
			b.show(map[string]shownBeat{"c1": {0, 0}})
			b.line(time.Minute, w)
			if letters[0] == 'r' {
				require.Equal(t, "1", b.code(script.Call{Script: script.ReentrantRelease, Args: []any{holder.body(), holder.hold(), 1, 3, 0}}))
				require.Equal(t, []string{string(w)}, b.waits())
			}
			require.Equal(t, "1", b.code(keep))
			require.Equal(t, "2", b.code(keep))
			require.Equal(t, []string{string(w)}, b.waits())
			require.Equal(t, "0", b.code(w.claim()))
			b.requireTTL(5 * time.Second)
			require.Equal(t, "2", b.code(over))
			b.requireHandedTo(w, nil)
			require.NotContains(t, []string{"1", "2"}, b.code(over))
			b.requireHandedTo(w, nil)
		})
	}
}

// A claim of a fair wait that is not the first hands over to the first.
func TestQueueScriptClaimOutOfTurn(t *testing.T) {
	s := redistest.Shared(t)
	b := newQueueScripts(t, s)
	first, second := waitNamed("c1", 1, "rf"), waitNamed("c2", 1, "rf")
	b.show(map[string]shownBeat{"c1": {0, 0}, "c2": {0, 0}})
	b.line(time.Minute, first, second)
	answer := b.ask(second.claim())
	require.Equal(t, "0", answer[0])
	require.Equal(t, string(b.do("ZSCORE", b.queue(), string(second)).([]byte)), answer[1])
	b.requireHandedTo(first, []scriptWait{second})
	require.Equal(t, "1", b.code(first.claim()))
	require.Equal(t, first.held(), b.lock())
}

// A release takes a wait out of the queue that its client does not need any more, and then hands over to the next one.
// With the lock's key alone it leaves the queue as it is.
func TestQueueScriptReleaseTakesAWaitOut(t *testing.T) {
	for _, letters := range []string{"pu", "ru"} {
		t.Run(letters, func(t *testing.T) { releaseTakesAWaitOut(t, letters) })
	}
}

func releaseTakesAWaitOut(t *testing.T, letters string) {
	s := redistest.Shared(t)
	holder, spared, next := waitNamed("c1", 1, letters), waitNamed("c1", 2, letters), waitNamed("c2", 1, letters)
	release := func() script.Call {
		script := holder.release()
		script.Args = append(script.Args, string(spared))
		return script
	}
	for name, tt := range map[string]struct {
		line   []scriptWait
		chosen scriptWait
	}{
		"the only one":     {[]scriptWait{spared}, nobody},
		"before others":    {[]scriptWait{spared, next}, next},
		"behind others":    {[]scriptWait{next, spared}, next},
		"not in the queue": {[]scriptWait{next}, next},
	} {
		t.Run(name, func(t *testing.T) {
			b := newQueueScripts(t, s)
			require.Equal(t, "1", b.code(holder.try()))
			b.show(map[string]shownBeat{"c1": {0, 0}, "c2": {0, 0}})
			b.line(time.Minute, tt.line...)
			require.Equal(t, "1", b.code(release()))
			b.requireHandedTo(tt.chosen, nil)
			require.NotEqual(t, "1", b.code(release()), "a second copy")
			b.requireHandedTo(tt.chosen, nil)
		})
	}
	if letters[0] == 'r' { // no plain lock is passed on that is to be kept
		t.Run("kept", func(t *testing.T) {
			b := newQueueScripts(t, s)
			require.Equal(t, "1", b.code(holder.try()))
			b.line(time.Minute, spared)
			script := release()
			script.Args[4] = 1000
			require.Equal(t, "1", b.code(script))
			require.Empty(t, b.waits())
		})
	}
	t.Run("others' lock", func(t *testing.T) {
		b := newQueueScripts(t, s)
		require.Equal(t, "1", b.code(next.try()))
		b.line(time.Minute, spared)
		require.Equal(t, "0", b.code(release()))
		require.Equal(t, []string{string(spared)}, b.waits())
	})
	t.Run("alone", func(t *testing.T) {
		b := newQueueScripts(t, s)
		require.Equal(t, "1", b.code(holder.try()))
		b.line(time.Minute, spared)
		script := release()
		require.Equal(t, int64(1), b.do("EVAL", append([]any{script.Script.Source, 1, b.key}, script.Args...)...))
		require.Empty(t, b.lock())
		require.Equal(t, []string{string(spared)}, b.waits())
	})
	t.Run("no permission", func(t *testing.T) {
		server := redistest.Start(t)
		b := newQueueScripts(t, server)
		require.Equal(t, "1", b.code(holder.try()))
		b.line(time.Minute, spared)
		b.deny(server, "-zrem")
		require.Equal(t, "1", b.code(release()), "it frees the lock all the same")
		require.NotEqual(t, holder.held(), b.lock())
	})
}
