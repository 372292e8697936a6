package lua_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// Whom a lock is handed over to. Client "c1" listens, "c2" and "gone" do not.
func TestQueueScriptHandOver(t *testing.T) {
	const period = scripttest.ScriptPeriod
	fair1, fair2, fair3 := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf"), scripttest.WaitNamed("c1", 2, "pf")
	unfair1, unfair2 := scripttest.WaitNamed("c1", 1, "pu"), scripttest.WaitNamed("c2", 1, "pu")
	reentrant1 := scripttest.WaitNamed("c1", 1, "rf")
	all := func(members ...scripttest.Wait) []scripttest.Wait { return members }
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name   string
		line   []scripttest.Wait
		beats  map[string]scripttest.Beat
		chosen scripttest.Wait
		left   []scripttest.Wait
	}{
		{"to nobody", nil, nil, scripttest.Nobody, nil},
		{"to the first", all(fair1, fair3), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}}, fair1, all(fair3)},
		{"to a reentrant one", all(reentrant1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}}, reentrant1, nil},
		{"to an unfair one", all(unfair1, fair3), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}}, unfair1, all(fair3)},
		{"past waits of a client without a beat", all(fair2, fair1, fair3), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}}, fair1, all(fair3)},
		{"past several stale waits", append(scripttest.StaleWaits(5), fair1, fair3), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}, "gone": {Age: 3 * period, Counted: 1}}, fair1, all(fair3)},
		{"to nobody that lives", scripttest.StaleWaits(5), map[string]scripttest.Beat{"gone": {Age: 3 * period, Counted: 1}}, scripttest.Nobody, nil},
		{"to a beat of two periods and a half", all(fair1), map[string]scripttest.Beat{"c1": {Age: 2500 * time.Millisecond, Counted: 1}}, fair1, nil},
		{"not to an older one", all(fair1), map[string]scripttest.Beat{"c1": {Age: 2500*time.Millisecond + time.Microsecond, Counted: 1}}, scripttest.Nobody, nil},
		{"to a beat from the future", all(fair1), map[string]scripttest.Beat{"c1": {Age: -time.Hour, Counted: 1}}, fair1, nil},
		{"not to an unfair one that nobody hears", all(unfair2, unfair1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}, "c2": {Age: 0, Counted: 1}}, unfair1, nil},
		{"to a fair one that nobody hears at the moment", all(fair2, fair1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}, "c2": {Age: period, Counted: 1}}, fair2, all(fair1)},
		{"not to a fair one that is not heard of either", all(fair2, fair1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}, "c2": {Age: period + time.Microsecond, Counted: 1}}, fair1, nil},
		{"not to an unfair one that is not heard of either", all(unfair2, fair1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}, "c2": {Age: period + time.Microsecond, Counted: 1}}, fair1, nil},
		{"to an old beat when it is heard", all(fair1, fair2), map[string]scripttest.Beat{"c1": {Age: 2 * period, Counted: 1}, "c2": {Age: 0, Counted: 1}}, fair1, all(fair2)},
		{"to an unfair one whose subscription the server cannot see", all(unfair2, fair1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}, "c2": {Age: 2 * period, Counted: 0}}, unfair2, all(fair1)},
		{"to a fair one whose subscription the server cannot see", all(fair2, fair1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}, "c2": {Age: 2 * period, Counted: 0}}, fair2, all(fair1)},
		{"not to a stale one whose subscription the server cannot see", all(fair2, fair1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}, "c2": {Age: 3 * period, Counted: 0}}, fair1, nil},
		{"past all waits of a client found gone", all(unfair2, fair2, fair1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}, "c2": {Age: 0, Counted: 1}}, fair1, nil},
		{"past what is no wait", all("text", "", "c1", "c1:1:xx:500", "c1:1:pf:0", "c1:x:pf:500", "c1:1:pf:500:", "c1:1:pf:9999999999999999999", fair1), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}}, fair1, nil},
		{"past what is no wait, to nobody", all("", "text"), map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}}, scripttest.Nobody, nil},
	} {
		for how, holder := range map[string]scripttest.Wait{"release": scripttest.WaitNamed("c9", 1, "pf"), "reentrant_release": scripttest.WaitNamed("c9", 1, "rf")} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				l := b.Listen(s, "c1")
				require.Equal(t, "1", b.Code(holder.Try()))
				b.Show(tt.beats)
				b.Line(time.Minute, tt.line...)
				require.Equal(t, "1", b.Code(holder.Release()))
				b.RequireHandedTo(tt.chosen, tt.left)
				if tt.chosen != scripttest.Nobody && tt.chosen.Client() == "c1" {
					require.Equal(t, []string{string(tt.chosen) + " " + b.Key}, l.Heard())
				} else {
					require.Empty(t, l.Heard())
				}
			})
		}
	}
}

// Everything that finds a lock free, or frees it, hands it over.
func TestQueueScriptHandOverByAll(t *testing.T) {
	first, second := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c1", 2, "pf")
	other, holder := scripttest.WaitNamed("c2", 1, "pf"), scripttest.WaitNamed("c9", 1, "pf")
	listed := scripttest.WaitNamed("c2", 1, "pf")
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name   string
		script script.Call
		held   string // what the lock is before, "" for free
		answer string
		left   []scripttest.Wait
	}{
		{"try", other.Try(), "", "0", nil},
		{"enqueue", other.Enqueue(), "", "0", []scripttest.Wait{other}},
		{"claim of one that is not queued", other.Claim(), "", "3", nil},
		{"cancel, free", other.Cancel(0), "", "1", nil},
		{"cancel, free, with the hold", other.Cancel(1), "", "1", nil},
		{"cancel for nobody", scripttest.Nobody.Cancel(0), "", "1", nil},
		{"cancel, reserved", other.Cancel(0), other.Reserved(), "1", nil},
		{"cancel, held", other.Cancel(1), other.Held(), "1", nil},
		{"poll", scripttest.PollAs("c2"), "", "1", nil},
		{"poll of waits", scripttest.PollAs("c2", string(listed), "9999999999999999"), "", "1", []scripttest.Wait{listed}},
		{"poll of its own", scripttest.PollAs("c1"), "", "1", nil},
		{"release", holder.Release(), holder.Held(), "1", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			l := b.Listen(s, "c1")
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}})
			b.Line(time.Minute, first, second)
			if tt.held != "" {
				b.Do("SET", b.Key, tt.held, "PX", 20_000)
			}
			answer := b.Ask(tt.script)
			require.Equal(t, tt.answer, answer[0])
			b.RequireHandedTo(first, append([]scripttest.Wait{second}, tt.left...))
			require.Contains(t, l.Heard(), string(first)+" "+b.Key)
			if tt.script.Script == script.Poll {
				require.Equal(t, tt.name == "poll of its own", answer[1] == string(first), "only its own waits are named")
			}
		})
	}
}

// A hold that is kept is handed over when its keep is over, and an inner
// release hands over nothing.
func TestQueueScriptHandOverAfterAKeep(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		t.Run(letters, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			holder, w := scripttest.WaitNamed("c9", 1, letters), scripttest.WaitNamed("c1", 1, letters)
			over := script.Call{Script: script.Release, Args: []any{holder.Body(), 0, "relock/1|k"}}
			keep := script.Call{Script: script.Release, Args: []any{holder.Body(), 5000, "relock/1|k"}}
			if letters[0] == 'r' {
				over = holder.Release()
				keep = script.Call{Script: script.ReentrantRelease, Args: []any{holder.Body(), holder.Hold(), 0, 2, 5000}}
			}
			require.Equal(t, "1", b.Code(holder.Try()))
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
			b.Line(time.Minute, w)
			if letters[0] == 'r' {
				require.Equal(t, "1", b.Code(script.Call{Script: script.ReentrantRelease, Args: []any{holder.Body(), holder.Hold(), 1, 3, 0}}))
				require.Equal(t, []string{string(w)}, b.Waits())
			}
			require.Equal(t, "1", b.Code(keep))
			require.Equal(t, "2", b.Code(keep))
			require.Equal(t, []string{string(w)}, b.Waits())
			require.Equal(t, "0", b.Code(w.Claim()))
			b.RequireTTL(5 * time.Second)
			require.Equal(t, "2", b.Code(over))
			b.RequireHandedTo(w, nil)
			require.NotContains(t, []string{"1", "2"}, b.Code(over))
			b.RequireHandedTo(w, nil)
		})
	}
}

// A claim of a fair wait that is not the first hands over to the first.
func TestQueueScriptClaimOutOfTurn(t *testing.T) {
	s := redistest.Shared(t)
	b := scripttest.NewQueue(t, s)
	first, second := scripttest.WaitNamed("c1", 1, "rf"), scripttest.WaitNamed("c2", 1, "rf")
	b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}, "c2": {Age: 0, Counted: 0}})
	b.Line(time.Minute, first, second)
	answer := b.Ask(second.Claim())
	require.Equal(t, "0", answer[0])
	require.Equal(t, string(b.Do("ZSCORE", b.QueueKey(), string(second)).([]byte)), answer[1])
	b.RequireHandedTo(first, []scripttest.Wait{second})
	require.Equal(t, "1", b.Code(first.Claim()))
	require.Equal(t, first.Held(), b.Lock())
}

// A release takes a wait out of the queue that its client does not need any
// more, and then hands over to the next one. With the lock's key alone it
// leaves the queue as it is.
func TestQueueScriptReleaseTakesAWaitOut(t *testing.T) {
	for _, letters := range []string{"pu", "ru"} {
		t.Run(letters, func(t *testing.T) { releaseTakesAWaitOut(t, letters) })
	}
}

func releaseTakesAWaitOut(t *testing.T, letters string) {
	s := redistest.Shared(t)
	holder, spared, next := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c1", 2, letters), scripttest.WaitNamed("c2", 1, letters)
	release := func() script.Call {
		script := holder.Release()
		script.Args = append(script.Args, string(spared))
		return script
	}
	for name, tt := range map[string]struct {
		line   []scripttest.Wait
		chosen scripttest.Wait
	}{
		"the only one":     {[]scripttest.Wait{spared}, scripttest.Nobody},
		"before others":    {[]scripttest.Wait{spared, next}, next},
		"behind others":    {[]scripttest.Wait{next, spared}, next},
		"not in the queue": {[]scripttest.Wait{next}, next},
	} {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			require.Equal(t, "1", b.Code(holder.Try()))
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}, "c2": {Age: 0, Counted: 0}})
			b.Line(time.Minute, tt.line...)
			require.Equal(t, "1", b.Code(release()))
			b.RequireHandedTo(tt.chosen, nil)
			require.NotEqual(t, "1", b.Code(release()), "a second copy")
			b.RequireHandedTo(tt.chosen, nil)
		})
	}
	if letters[0] == 'r' { // no plain lock is passed on that is to be kept
		t.Run("kept", func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			require.Equal(t, "1", b.Code(holder.Try()))
			b.Line(time.Minute, spared)
			script := release()
			script.Args[4] = 1000
			require.Equal(t, "1", b.Code(script))
			require.Empty(t, b.Waits())
		})
	}
	t.Run("others' lock", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		require.Equal(t, "1", b.Code(next.Try()))
		b.Line(time.Minute, spared)
		require.Equal(t, "0", b.Code(release()))
		require.Equal(t, []string{string(spared)}, b.Waits())
	})
	t.Run("alone", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		require.Equal(t, "1", b.Code(holder.Try()))
		b.Line(time.Minute, spared)
		script := release()
		require.Equal(t, int64(1), b.Do("EVAL", append([]any{script.Script.Source, 1, b.Key}, script.Args...)...))
		require.Empty(t, b.Lock())
		require.Equal(t, []string{string(spared)}, b.Waits())
	})
	t.Run("no permission", func(t *testing.T) {
		server := redistest.Start(t)
		b := scripttest.NewQueue(t, server)
		require.Equal(t, "1", b.Code(holder.Try()))
		b.Line(time.Minute, spared)
		b.Deny(server, "-zrem")
		require.Equal(t, "1", b.Code(release()), "it frees the lock all the same")
		require.NotEqual(t, holder.Held(), b.Lock())
	})
}
