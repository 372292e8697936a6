package lua_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A lock is handed off to the first wait whose client lives. Client "c1"
// listens, "c2" and "gone" do not. A read/write lock is handed off to waiters
// that write by the same rules.
func TestQueueScriptHandOff(t *testing.T) {
	const period = ScriptPeriod
	fair1, fair2, fair3 := WaitNamed("c1", 1, "pf"), WaitNamed("c2", 1, "pf"), WaitNamed("c1", 2, "pf")
	unfair1, unfair2 := WaitNamed("c1", 1, "pu"), WaitNamed("c2", 1, "pu")
	reentrant1 := WaitNamed("c1", 1, "rf")
	all := func(members ...Wait) []Wait { return members }
	now := Heartbeat{Age: 0, Counted: 1}
	for _, tt := range []struct {
		name       string
		line       []Wait
		heartbeats map[string]Heartbeat
		chosen     Wait
		left       []Wait
	}{
		{"to nobody", nil, nil, Nobody, nil},
		{"to the first", all(fair1, fair3), map[string]Heartbeat{"c1": now}, fair1, all(fair3)},
		{"to a reentrant one", all(reentrant1), map[string]Heartbeat{"c1": now}, reentrant1, nil},
		{"to an unfair one", all(unfair1, fair3), map[string]Heartbeat{"c1": now}, unfair1, all(fair3)},
		{"past waits of a client without a heartbeat", all(fair2, fair1, fair3), map[string]Heartbeat{
			"c1": now,
		}, fair1, all(fair3)},
		{"past several stale waits", append(StaleWaits(5, "pf"), fair1, fair3), map[string]Heartbeat{
			"c1": now, "gone": {Age: 3 * period, Counted: 1},
		}, fair1, all(fair3)},
		{"to nobody that lives", StaleWaits(5, "pf"), map[string]Heartbeat{
			"gone": {Age: 3 * period, Counted: 1},
		}, Nobody, nil},
		{"to a heartbeat of two periods and a half", all(fair1), map[string]Heartbeat{
			"c1": {Age: 2500 * time.Millisecond, Counted: 1},
		}, fair1, nil},
		{"not to an older one", all(fair1), map[string]Heartbeat{"c1": {Age: 2500*time.Millisecond +
			time.Microsecond, Counted: 1}}, Nobody, nil},
		{"to a heartbeat from the future", all(fair1), map[string]Heartbeat{"c1": {Age: -time.Hour, Counted: 1}}, fair1, nil},
		{"not to an unfair one without a subscription", all(unfair2, unfair1), map[string]Heartbeat{
			"c1": now, "c2": now,
		}, unfair1, nil},
		{"to a fair one that has no subscription at the moment", all(fair2, fair1), map[string]Heartbeat{
			"c1": now, "c2": {Age: 2500 * time.Millisecond, Counted: 1},
		}, fair2, all(fair1)},
		{"not to a fair one that is stale either", all(fair2, fair1), map[string]Heartbeat{
			"c1": now, "c2": {Age: 2500*time.Millisecond + time.Microsecond, Counted: 1},
		}, fair1, nil},
		{"not to an unfair one that has no new heartbeat either", all(unfair2, fair1), map[string]Heartbeat{
			"c1": now, "c2": {Age: period + time.Microsecond, Counted: 1},
		}, fair1, nil},
		{"to an old heartbeat with a subscription", all(fair1, fair2), map[string]Heartbeat{
			"c1": {Age: 2 * period, Counted: 1}, "c2": now,
		}, fair1, all(fair2)},
		{"to an unfair one whose subscription the server cannot see", all(unfair2, fair1), map[string]Heartbeat{
			"c1": now, "c2": {Age: 2 * period, Counted: 0},
		}, unfair2, all(fair1)},
		{"to a fair one whose subscription the server cannot see", all(fair2, fair1), map[string]Heartbeat{
			"c1": now, "c2": {Age: 2 * period, Counted: 0},
		}, fair2, all(fair1)},
		{"not to a stale one whose subscription the server cannot see", all(fair2, fair1), map[string]Heartbeat{
			"c1": now, "c2": {Age: 3 * period, Counted: 0},
		}, fair1, nil},
		{"past all waits of a client found gone", all(unfair2, fair2, fair1), map[string]Heartbeat{
			"c1": now, "c2": now,
		}, fair1, nil},
		{"past what is no wait", all("text", "", "c1", "c1:1:xx:500", "c1:1:pf:0", "c1:x:pf:500", "c1:1:pf:500:",
			"c1:1:pf:9999999999999999999", fair1), map[string]Heartbeat{"c1": now}, fair1, nil},
		{"past what is no wait, to nobody", all("", "text"), map[string]Heartbeat{"c1": now}, Nobody, nil},
	} {
		for how, letters := range map[string]string{"release": "pf", "reentrant_release": "rf", "rw_release": "wf"} {
			if how == "rw_release" && tt.line == nil {
				continue // without a queue it leaves the beats to their expiry
			}
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				holder, line, chosen, left := WaitNamed("c9", 1, letters), tt.line, tt.chosen, tt.left
				if how == "rw_release" {
					chosen, line, left = toWrite(chosen)[0], toWrite(line...), toWrite(left...)
				}
				b := NewHeld(t, server, holder)
				l := b.Listen("c1")
				b.Show(tt.heartbeats)
				b.Line(time.Minute, line...)
				b.RequireDone(holder.Release())
				b.RequireHandedTo(chosen, left)
				if chosen != Nobody && chosen.Client() == "c1" {
					require.Equal(t, []string{string(chosen) + " " + b.Key}, l.Heard())
				} else {
					require.Empty(t, l.Heard())
				}
			})
		}
	}
}

// toWrite returns the same waits for a read/write lock.
func toWrite(waits ...Wait) (all []Wait) {
	replacer := strings.NewReplacer(":pf:", ":wf:", ":pu:", ":wu:", ":rf:", ":wf:")
	for _, w := range waits {
		all = append(all, Wait(replacer.Replace(string(w))))
	}
	return all
}

// Each script that finds a lock free, or frees it, hands it off, with and
// without memory.
func TestQueueScriptHandOffByAll(t *testing.T) {
	s := redistest.Start(t)
	first, second := WaitNamed("c1", 1, "pf"), WaitNamed("c1", 2, "pf")
	other, holder, reentrant := WaitNamed("c2", 1, "pf"), WaitNamed("c9", 1, "pf"), WaitNamed("c9", 1, "rf")
	for _, tt := range []struct {
		name   string
		script script.Call
		held   string // what the lock is before, "" for free
		answer string
		left   []Wait
	}{
		{"try", other.Try(), "", "0", nil},
		{"enqueue", other.Enqueue(), "", "0", []Wait{other}},
		{"claim of one that is not queued", other.Claim(), "", "3", nil},
		{"claim, not the first", second.Claim(), "", "0", nil},
		{"cancel, free", other.Cancel(0), "", "1", nil},
		{"cancel, free, with the hold", other.Cancel(1), "", "1", nil},
		{"cancel for nobody", CancelNobody, "", "1", nil},
		{"cancel, reserved", other.Cancel(0), other.Reserved(), "1", nil},
		{"cancel, held", other.Cancel(1), other.Held(), "1", nil},
		{"poll", PollAs("c2"), "", "1", nil},
		{"poll of waits", PollAs("c2", string(other), "9999999999999999"), "", "1", []Wait{other}},
		{"poll of the same client", PollAs("c1"), "", "1", nil},
		{"release", holder.Release(), holder.Held(), "1", nil},
		{"reentrant_release", reentrant.Release(), reentrant.Held(), "1", nil},
	} {
		for _, memory := range []string{"enough", "none"} {
			if memory == "none" && tt.name == "enqueue" {
				continue // is refused
			}
			t.Run(tt.name+"/"+memory, func(t *testing.T) {
				b := NewQueue(t, s)
				l := b.Listen("c1")
				b.Show(map[string]Heartbeat{"c1": {Age: 0, Counted: 1}})
				b.Line(time.Minute, append(StaleWaits(3, "pf"), first, second)...)
				b.Store(tt.held)
				if memory == "none" {
					fillMemory(t, s)
				}
				answer := b.Ask(tt.script)
				require.Equal(t, tt.answer, answer[0])
				b.RequireHandedTo(first, append([]Wait{second}, tt.left...))
				require.Contains(t, l.Heard(), string(first)+" "+b.Key)
				if tt.script.Script == script.Claim && tt.answer == "0" {
					require.Equal(t, string(b.Do("ZSCORE", b.QueueKey(), string(second)).([]byte)), answer[1])
				}
				if tt.script.Script == script.Poll {
					require.Equal(t, tt.name == "poll of the same client", answer[1] == string(first), "only its own waits are named")
				}
			})
		}
	}
}

// A hold that is kept is handed off when its keep is over, and an inner
// release hands off nothing.
func TestQueueScriptHandOffAfterAKeep(t *testing.T) {
	for _, letters := range allLetters {
		t.Run(letters, func(t *testing.T) {
			holder, w := WaitNamed("c9", 1, letters), WaitNamed("c1", 1, letters)
			b := NewHeld(t, server, holder)
			over, keep := holder.Release(), holder.ReleaseAndKeep(5*time.Second)
			b.Queued(w)
			if letters[0] == 'r' {
				b.RequireDone(script.Call{Script: script.ReentrantRelease, Args: []any{holder.Body(), holder.Hold(), 1, 3, 0}})
				require.Equal(t, []string{string(w)}, b.Waits())
			}
			b.RequireDone(keep)
			require.Equal(t, "2", b.Code(keep))
			require.Equal(t, []string{string(w)}, b.Waits())
			require.Equal(t, "2", b.Code(w.Claim()))
			b.RequireTTL(5 * time.Second)
			require.Equal(t, "2", b.Code(over))
			b.RequireHandedTo(w, nil)
			require.NotContains(t, []string{"1", "2"}, b.Code(over))
			b.RequireHandedTo(w, nil)
		})
	}
}

// A release takes a wait out of the queue that its client does not need any
// more, and then hands off to the next one. With the lock's key only it leaves
// the queue as it is.
func TestQueueScriptReleaseTakesAWaitOut(t *testing.T) {
	for _, letters := range []string{"pu", "ru"} {
		holder, idle, next := WaitNamed("c1", 1, letters), WaitNamed("c1", 2, letters), WaitNamed("c2", 1, letters)
		release := holder.Release()
		release.Args = append(release.Args, string(idle))
		held := func(w Wait, line ...Wait) *Queue {
			b := NewHeld(t, server, w)
			b.Queued(line...)
			return b
		}
		for _, tt := range []struct {
			line   []Wait
			chosen Wait
		}{{[]Wait{idle}, Nobody}, {[]Wait{idle, next}, next}, {[]Wait{next, idle}, next}, {[]Wait{next}, next}} {
			b := held(holder, tt.line...)
			b.RequireDone(release)
			b.RequireHandedTo(tt.chosen, nil)
			require.NotEqual(t, "1", b.Code(release), "a second copy")
			b.RequireHandedTo(tt.chosen, nil)
		}
		if letters == "ru" { // no plain lock that is to be kept is handed off
			keep := release
			keep.Args = slices.Clone(release.Args)
			keep.Args[4] = 1000
			b := held(holder, idle)
			b.RequireDone(keep)
			b.RequireWaits("kept")
		}
		held(next, idle).Steps(Step("the lock of another", release, "0", []string{next.Held()}, idle))
		b := held(holder, idle)
		require.Equal(t, int64(1), b.Do("EVAL", append([]any{release.Script.Source, 1, b.Key}, release.Args...)...))
		b.Require("the lock's key only", nil, idle)
		b = held(holder, idle)
		b.Deny("-zrem")
		b.RequireDone(release)
		require.NotEqual(t, holder.Held(), b.Lock())
	}
}

// An unfair wait that is young is only woken, and the lock stays free. It is
// reserved for a wait that is older, or fair, or from the future.
func TestQueueScriptShortWaits(t *testing.T) {
	holder := WaitNamed("c9", 1, "pu")
	release := func(b *Queue, ago time.Duration, w Wait) {
		b.Clear()
		b.RequireDone(holder.Try())
		b.Show(map[string]Heartbeat{"c1": {Age: 0, Counted: 1}})
		b.Line(time.Minute, StaleWaits(2, "pf")...)
		r := holder.Release()
		r.Key = b.Key
		// One transaction, so that a busy machine is not between them.
		b.Do("MULTI")
		b.Do("EVAL",
			"local t = redis.call('TIME') return redis.call('ZADD', KEYS[1], t[1] * 1000000 + t[2] - ARGV[1], ARGV[2])",
			1, b.QueueKey(), ago.Microseconds(), string(w))
		b.Do("EVAL", r.BySource().Args...)
		require.Equal(b, []any{int64(1), int64(1)}, b.Do("EXEC"))
	}
	for _, letters := range allLetters {
		b, w := NewQueue(t, server), WaitNamed("c1", 1, letters)
		l := b.Listen("c1")
		if letters[1] == 'f' {
			release(b, 0, w)
			b.RequireHandedTo(w, nil)
			continue
		}
		b.Until(func() bool {
			release(b, 0, w)
			require.Equal(t, []string{string(w) + " " + b.Key}, l.Heard(), "woken")
			return b.Lock() == ""
		}, "it is only woken")
		b.RequireHandedTo(Nobody, []Wait{w})
		b.Steps(Step("it takes the lock", w.Claim(), "1", []string{w.Held()}))
		for _, ago := range []time.Duration{10*time.Millisecond + time.Microsecond, time.Minute, -time.Minute} {
			release(b, ago, w)
			b.RequireHandedTo(w, nil)
		}
	}
	b, w := NewQueue(t, server), WaitNamed("c1", 1, "pu")
	b.Until(func() bool {
		b.Clear()
		b.Live("c1")
		b.Line(0, w)
		return b.Ask(w.Poll())[1] == string(w) && b.Lock() == ""
	}, "the poll that wakes it names it")
	b.RequireWaits("", w)
}
