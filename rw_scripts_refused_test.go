package relock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// What is not a read/write lock, or one of the other mode, is a conflict, and is left as it is.
func TestRWScriptsConflict(t *testing.T) {
	s := redistest.Shared(t)
	w, r := rwWaitNamed("c1", 1, "wf"), rwWaitNamed("c2", 1, "sf")
	other := rwWaitNamed("c9", 1, "su")
	for what, create := range map[string][]any{
		"text": {"SET", "text"}, "plain lock": {"SET", plain3}, "reservation": {"SET", "relock/1|w|" + string(other.scriptWait)},
		"reentrant lock": {"HSET", "hold", "h", ownerUs, 1}, "sorted set": {"ZADD", 1, "x"}, "read/write lock to be": {"ZADD", "inf", "relock/2|f"},
	} {
		for name, script := range map[string]script.Call{
			"try": w.try(), "try to read": r.try(), "enqueue": w.enqueue(), "claim": r.claim(), "cancel": w.cancel(1), "release": w.release(),
			"leave": w.leave(1, 0, 2), "renew": w.renew(longLease), "enter": w.enter(1, 1, 2, longLease),
		} {
			t.Run(what+"/"+name, func(t *testing.T) {
				b := newRWBench(t, s)
				b.do(create[0].(string), append([]any{b.key}, create[1:]...)...)
				b.do("PEXPIRE", b.key, 20_000)
				before := b.content(b.key)
				want := "-1"
				if name == "cancel" {
					want = "1"
				}
				require.Equal(t, want, b.ask(script)[0])
				require.Equal(t, before, b.content(b.key))
			})
		}
	}
	for name, script := range map[string]script.Call{"try": r.try(), "enqueue": r.enqueue(), "claim": r.claim()} {
		t.Run("the other mode/"+name, func(t *testing.T) {
			b := newRWBench(t, s)
			require.Equal(t, "1", b.code(other.try()))
			before := b.everything()
			require.Equal(t, "-1", b.code(script))
			require.Equal(t, before, b.everything())
		})
	}
}

// With the lock's key alone, as when a Cluster moves its slot, a hold is renewed and released; those who wait find out by their polls.
func TestRWScriptsWithTheLockAlone(t *testing.T) {
	s := redistest.Shared(t)
	x, y, w := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c2", 1, "sf"), rwWaitNamed("c5", 1, "wf")
	b := newRWBench(t, s)
	alone := func(s script.Call) any {
		r := s.Script.BySource([]string{b.key}, s.Args)
		return b.do(r.Cmd, r.Args...)
	}
	require.Equal(t, "1", b.code(x.try()))
	require.Equal(t, "1", b.code(y.try()))
	b.show(map[string]shownBeat{"c5": {0, 0}})
	b.stand(time.Minute, w)
	require.Equal(t, int64(1), alone(x.renew(longLease)))
	requireExpiry(t, longLease+clockGrain, b.left(x))
	require.Equal(t, int64(1), alone(y.release()))
	require.Equal(t, int64(1), alone(x.leave(2, 0, 3)))
	require.Equal(t, []string{x.reads()}, b.lock())
	require.Equal(t, int64(1), alone(x.release()))
	require.Empty(t, b.lock())
	b.requireQueue("it waits", w)
	require.Equal(t, string(w.scriptWait), b.ask(rwPollAs("c5", string(w.scriptWait), 5))[4])
}

// A bad argument is refused before anything is written.
func TestRWScriptsRefuseBadArguments(t *testing.T) {
	s := redistest.Shared(t)
	w := rwWaitNamed("c1", 1, "wf")
	numbers := []any{"", "-1", "1.5", "007", "1e3", "nan", "20 ", strings.Repeat("9", 20), "text"}
	waits := []any{"", "c1", "c1:1", "c1:x:wf:5", "c1:1:pf:5", "c1:1:wx:5", "c1:1:wf:0", ":1:wf:5"}
	for name, tt := range map[string]struct {
		script script.Call
		bad    map[int][]any
	}{
		"try":     {w.try(), map[int][]any{0: waits, 1: append([]any{"0", "9"}, numbers...), 2: {""}}},
		"enqueue": {w.enqueue(), map[int][]any{0: waits, 1: append([]any{"0"}, numbers...), 2: {"-1", "x"}, 3: {"x"}, 4: append([]any{"9"}, numbers...), 5: {""}}},
		"claim":   {w.claim(), map[int][]any{0: waits, 1: append([]any{"9"}, numbers...), 2: {""}}},
		"cancel":  {w.cancel(1), map[int][]any{0: waits[1:], 1: {"", "2", "x"}}},
		"enter":   {w.enter(1, 1, 2, longLease), map[int][]any{0: {""}, 1: append([]any{"0"}, numbers...), 2: numbers, 3: append([]any{"1"}, numbers...), 4: append([]any{"9"}, numbers...)}},
		"renew":   {w.renew(longLease), map[int][]any{0: {""}, 1: append([]any{"9"}, numbers...)}},
		"release": {w.release(), map[int][]any{0: {""}, 1: numbers, 2: numbers, 3: append([]any{"1"}, numbers...)}},
		"poll": {rwPollAs("c1", string(w.scriptWait), "5"), map[int][]any{
			0: {"", "c2"}, 1: append([]any{"0"}, numbers...), 2: {"", "x", "c2:1:wf:5"}, 3: {"", "x", "-5"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRWBench(t, s)
			require.Equal(t, "1", b.code(w.try()))
			before := b.everything()
			refused := func(what string, args []any) {
				t.Helper()
				_, err := b.send(script.Call{Script: tt.script.Script, Args: args})
				var line redis.Error
				require.ErrorAs(t, err, &line, what)
				require.Equal(t, before, b.everything(), what)
			}
			for i := range tt.script.Args {
				if name != "poll" || i == 0 || i == 1 || i == 3 {
					refused(fmt.Sprintf("%d arguments", i), tt.script.Args[:i])
				}
				for _, bad := range tt.bad[i] {
					args := append([]any(nil), tt.script.Args...)
					args[i] = bad
					refused(fmt.Sprintf("argument %d is %q", i+1, bad), args)
				}
			}
			if name == "poll" {
				args := []any{"c1", 1000}
				for i := range 65 {
					args = append(args, fmt.Sprintf("c1:%d:wf:5", i+1), 5)
				}
				refused("65 waits", args)
			}
		})
	}
}

// A server without memory: what gives back or keeps goes through, what takes is refused whole.
func TestRWScriptsOutOfMemory(t *testing.T) {
	s := redistest.Start(t)
	x, y, w := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c2", 1, "sf"), rwWaitNamed("c5", 1, "wf")
	holder := rwWaitNamed("c9", 1, "wf")
	full := func(t *testing.T) {
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		t.Cleanup(func() { s.Do(t, "CONFIG", "SET", "maxmemory", "0") })
	}
	live := map[string]shownBeat{"c1": {0, 0}, "c2": {0, 0}, "c5": {0, 0}}
	for name, tt := range map[string]struct {
		held   []rwWait
		script script.Call
		lock   []string
		left   []rwWait
	}{
		"release":           {[]rwWait{holder}, holder.release(), []string{x.reserved()}, []rwWait{w}},
		"cancel":            {[]rwWait{holder}, holder.cancel(1), []string{x.reserved()}, []rwWait{w}},
		"cancel for nobody": {nil, rwNobody.cancel(0), []string{x.reserved()}, []rwWait{w}},
		"poll":              {nil, rwPollAs("c5"), []string{x.reserved()}, []rwWait{w}},
		"try":               {nil, w.try(), []string{x.reserved()}, []rwWait{w}},
		"downgrade":         {[]rwWait{holder}, holder.leave(1, 0, 2), []string{holder.reads(), x.reserved()}, []rwWait{w}},
		"renew":             {[]rwWait{holder}, holder.renew(longLease), []string{holder.writes()}, []rwWait{x, w}},
	} {
		t.Run("goes through/"+name, func(t *testing.T) {
			b := newRWBench(t, s)
			for _, w := range tt.held {
				require.Equal(t, "1", b.code(w.try()))
			}
			b.show(live)
			b.stand(time.Minute, x, w)
			full(t)
			b.ask(tt.script)
			require.ElementsMatch(t, tt.lock, b.lock())
			b.requireQueue("", tt.left...)
			if name == "renew" {
				requireExpiry(t, longLease+clockGrain, b.left(holder))
			}
		})
	}
	for name, tt := range map[string]struct {
		held   []rwWait
		script script.Call
	}{
		"try": {nil, x.try()}, "try beside another": {[]rwWait{y}, x.try()}, "enqueue": {nil, x.enqueue()}, "enqueue, held": {[]rwWait{holder}, x.enqueue()},
		"enter": {[]rwWait{x}, x.enter(2, 0, 2, longLease)}, "upgrade": {[]rwWait{x}, x.enter(1, 1, 2, longLease)},
	} {
		t.Run("refused/"+name, func(t *testing.T) {
			b := newRWBench(t, s)
			for _, w := range tt.held {
				require.Equal(t, "1", b.code(w.try()))
			}
			before := b.everything()
			full(t)
			_, err := b.send(tt.script)
			require.ErrorContains(t, err, "OOM")
			require.Equal(t, before, b.everything())
		})
	}
}

// Without a permission a script says so; a lock that may have no expiry goes, or becomes something that has one; a release frees the lock
// whatever becomes of the queue.
func TestRWScriptsPermission(t *testing.T) {
	s := redistest.Start(t)
	x, y, w := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c2", 1, "sf"), rwWaitNamed("c5", 1, "wf")
	denied := func(b *rwBench, script script.Call) {
		b.Helper()
		_, err := b.send(script)
		var line redis.Error
		require.ErrorAs(b, err, &line)
		require.True(b, driver.IsDenied(line), line)
	}
	for name, script := range map[string]script.Call{
		"try": x.try(), "enqueue": x.enqueue(), "claim": x.claim(), "cancel": x.cancel(1), "poll": rwPollAs("c1", string(x.scriptWait), 5),
		"enter": x.enter(2, 0, 2, longLease), "renew": x.renew(longLease), "release": x.release(),
	} {
		t.Run("to read/"+name, func(t *testing.T) {
			b := newRWBench(t, s)
			require.Equal(t, "1", b.code(x.try()))
			before := b.everything()
			b.deny(s, "-zrange")
			denied(b, script)
			require.Equal(t, before, b.everything())
		})
	}
	t.Run("for an expiry", func(t *testing.T) {
		for _, script := range []script.Call{x.try(), x.enqueue()} {
			b := newRWBench(t, s)
			b.deny(s, "-pexpire")
			denied(b, script)
			require.Equal(t, int64(0), b.do("EXISTS", b.key, b.key+":h"))
			b.deny(s, "-pexpire", "-del")
			denied(b, script)
			require.Equal(t, []byte("relock/1|denied"), b.do("GET", b.key))
			b.do("DEL", b.key)
			b.deny(s, "-zrem")
			denied(b, script)
			require.Equal(t, int64(0), b.do("EXISTS", b.key, b.key+":h"))
		}
		b := newRWBench(t, s)
		require.Equal(t, "1", b.code(y.try()))
		before := b.entry(y)
		b.deny(s, "-pexpire")
		denied(b, x.try())
		require.Equal(t, []string{y.reads()}, b.lock())
		denied(b, w.enqueue())
		require.Empty(t, b.waits())
		require.Equal(t, before, b.entry(y))
		denied(b, y.renew(longLease))
	})
	for name, rule := range map[string]string{"queue": "-zremrangebyrank", "reservation": "-pexpire", "publish": "-publish", "delete": "-del"} {
		t.Run("to hand over/"+name, func(t *testing.T) {
			b := newRWBench(t, s)
			require.Equal(t, "1", b.code(w.try()))
			b.show(map[string]shownBeat{"c1": {0, 0}})
			b.stand(time.Minute, x)
			b.deny(s, rule)
			require.Equal(t, "1", b.code(w.release()))
			require.NotContains(t, b.lock(), w.writes())
			b.less = nil
			require.Equal(t, "1", b.code(x.enqueueAgain("5")), "the lock can be had")
			require.Equal(t, []string{x.reads()}, b.lock())
		})
	}
}
