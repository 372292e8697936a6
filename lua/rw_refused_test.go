package lua_test

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
	"github.com/relock-go/relock/internal/scripttest"
)

// What is not a read/write lock, or one of the other mode, is a conflict, and
// is left as it is.
func TestRWScriptsConflict(t *testing.T) {
	s := redistest.Shared(t)
	w, r := scripttest.RWWaitNamed("c1", 1, "wf"), scripttest.RWWaitNamed("c2", 1, "sf")
	other := scripttest.RWWaitNamed("c9", 1, "su")
	for what, create := range map[string][]any{
		"text": {"SET", "text"}, "plain lock": {"SET", scripttest.Plain3}, "reservation": {"SET", "relock/1|w|" + string(other.Wait)},
		"reentrant lock": {"HSET", "hold", "h", scripttest.OwnerUs, 1}, "sorted set": {"ZADD", 1, "x"}, "read/write lock to be": {"ZADD", "inf", "relock/2|f"},
	} {
		for name, script := range map[string]script.Call{
			"try": w.Try(), "try to read": r.Try(), "enqueue": w.Enqueue(), "claim": r.Claim(), "cancel": w.Cancel(1), "release": w.Release(),
			"leave": w.Leave(1, 0, 2), "renew": w.Renew(scripttest.LongLease), "enter": w.Enter(1, 1, 2, scripttest.LongLease),
		} {
			t.Run(what+"/"+name, func(t *testing.T) {
				b := scripttest.NewReadWrite(t, s)
				b.Do(create[0].(string), append([]any{b.Key}, create[1:]...)...)
				b.Do("PEXPIRE", b.Key, 20_000)
				before := b.Content(b.Key)
				want := "-1"
				if name == "cancel" {
					want = "1"
				}
				require.Equal(t, want, b.Ask(script)[0])
				require.Equal(t, before, b.Content(b.Key))
			})
		}
	}
	for name, script := range map[string]script.Call{"try": r.Try(), "enqueue": r.Enqueue(), "claim": r.Claim()} {
		t.Run("the other mode/"+name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			require.Equal(t, "1", b.Code(other.Try()))
			before := b.Everything()
			require.Equal(t, "-1", b.Code(script))
			require.Equal(t, before, b.Everything())
		})
	}
}

// With the lock's key alone, as when a Cluster moves its slot, a hold is
// renewed and released; those who wait find out by their polls.
func TestRWScriptsWithTheLockAlone(t *testing.T) {
	s := redistest.Shared(t)
	x, y, w := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "sf"), scripttest.RWWaitNamed("c5", 1, "wf")
	b := scripttest.NewReadWrite(t, s)
	alone := func(s script.Call) any {
		r := s.Script.BySource([]string{b.Key}, s.Args)
		return b.Do(r.Cmd, r.Args...)
	}
	require.Equal(t, "1", b.Code(x.Try()))
	require.Equal(t, "1", b.Code(y.Try()))
	b.Show(map[string]scripttest.Beat{"c5": {Age: 0, Counted: 0}})
	b.Stand(time.Minute, w)
	require.Equal(t, int64(1), alone(x.Renew(scripttest.LongLease)))
	scripttest.RequireExpiry(t, scripttest.LongLease+scripttest.ClockGrain, b.Left(x))
	require.Equal(t, int64(1), alone(y.Release()))
	require.Equal(t, int64(1), alone(x.Leave(2, 0, 3)))
	require.Equal(t, []string{x.Reads()}, b.Lock())
	require.Equal(t, int64(1), alone(x.Release()))
	require.Empty(t, b.Lock())
	b.RequireQueue("it waits", w)
	require.Equal(t, string(w.Wait), b.Ask(scripttest.RWPollAs("c5", string(w.Wait), 5))[4])
}

// A bad argument is refused before anything is written.
func TestRWScriptsRefuseBadArguments(t *testing.T) {
	s := redistest.Shared(t)
	w := scripttest.RWWaitNamed("c1", 1, "wf")
	numbers := []any{"", "-1", "1.5", "007", "1e3", "nan", "20 ", strings.Repeat("9", 20), "text"}
	waits := []any{"", "c1", "c1:1", "c1:x:wf:5", "c1:1:pf:5", "c1:1:wx:5", "c1:1:wf:0", ":1:wf:5"}
	for name, tt := range map[string]struct {
		script script.Call
		bad    map[int][]any
	}{
		"try":     {w.Try(), map[int][]any{0: waits, 1: append([]any{"0", "9"}, numbers...), 2: {""}}},
		"enqueue": {w.Enqueue(), map[int][]any{0: waits, 1: append([]any{"0"}, numbers...), 2: {"-1", "x"}, 3: {"x"}, 4: append([]any{"9"}, numbers...), 5: {""}}},
		"claim":   {w.Claim(), map[int][]any{0: waits, 1: append([]any{"9"}, numbers...), 2: {""}}},
		"cancel":  {w.Cancel(1), map[int][]any{0: waits[1:], 1: {"", "2", "x"}}},
		"enter":   {w.Enter(1, 1, 2, scripttest.LongLease), map[int][]any{0: {""}, 1: append([]any{"0"}, numbers...), 2: numbers, 3: append([]any{"1"}, numbers...), 4: append([]any{"9"}, numbers...)}},
		"renew":   {w.Renew(scripttest.LongLease), map[int][]any{0: {""}, 1: append([]any{"9"}, numbers...)}},
		"release": {w.Release(), map[int][]any{0: {""}, 1: numbers, 2: numbers, 3: append([]any{"1"}, numbers...)}},
		"poll": {scripttest.RWPollAs("c1", string(w.Wait), "5"), map[int][]any{
			0: {"", "c2"}, 1: append([]any{"0"}, numbers...), 2: {"", "x", "c2:1:wf:5"}, 3: {"", "x", "-5"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			require.Equal(t, "1", b.Code(w.Try()))
			before := b.Everything()
			refused := func(what string, args []any) {
				t.Helper()
				_, err := b.Send(script.Call{Script: tt.script.Script, Args: args})
				var line redis.Error
				require.ErrorAs(t, err, &line, what)
				require.Equal(t, before, b.Everything(), what)
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

// A server without memory: what gives back or keeps goes through, what takes is
// refused whole.
func TestRWScriptsOutOfMemory(t *testing.T) {
	s := redistest.Start(t)
	x, y, w := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "sf"), scripttest.RWWaitNamed("c5", 1, "wf")
	holder := scripttest.RWWaitNamed("c9", 1, "wf")
	full := func(t *testing.T) {
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		t.Cleanup(func() { s.Do(t, "CONFIG", "SET", "maxmemory", "0") })
	}
	live := map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}, "c2": {Age: 0, Counted: 0}, "c5": {Age: 0, Counted: 0}}
	for name, tt := range map[string]struct {
		held   []scripttest.RWWait
		script script.Call
		lock   []string
		left   []scripttest.RWWait
	}{
		"release":           {[]scripttest.RWWait{holder}, holder.Release(), []string{x.Reserved()}, []scripttest.RWWait{w}},
		"cancel":            {[]scripttest.RWWait{holder}, holder.Cancel(1), []string{x.Reserved()}, []scripttest.RWWait{w}},
		"cancel for nobody": {nil, scripttest.RWNobody.Cancel(0), []string{x.Reserved()}, []scripttest.RWWait{w}},
		"poll":              {nil, scripttest.RWPollAs("c5"), []string{x.Reserved()}, []scripttest.RWWait{w}},
		"try":               {nil, w.Try(), []string{x.Reserved()}, []scripttest.RWWait{w}},
		"downgrade":         {[]scripttest.RWWait{holder}, holder.Leave(1, 0, 2), []string{holder.Reads(), x.Reserved()}, []scripttest.RWWait{w}},
		"renew":             {[]scripttest.RWWait{holder}, holder.Renew(scripttest.LongLease), []string{holder.Writes()}, []scripttest.RWWait{x, w}},
	} {
		t.Run("goes through/"+name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			for _, w := range tt.held {
				require.Equal(t, "1", b.Code(w.Try()))
			}
			b.Show(live)
			b.Stand(time.Minute, x, w)
			full(t)
			b.Ask(tt.script)
			require.ElementsMatch(t, tt.lock, b.Lock())
			b.RequireQueue("", tt.left...)
			if name == "renew" {
				scripttest.RequireExpiry(t, scripttest.LongLease+scripttest.ClockGrain, b.Left(holder))
			}
		})
	}
	for name, tt := range map[string]struct {
		held   []scripttest.RWWait
		script script.Call
	}{
		"try": {nil, x.Try()}, "try beside another": {[]scripttest.RWWait{y}, x.Try()}, "enqueue": {nil, x.Enqueue()}, "enqueue, held": {[]scripttest.RWWait{holder}, x.Enqueue()},
		"enter": {[]scripttest.RWWait{x}, x.Enter(2, 0, 2, scripttest.LongLease)}, "upgrade": {[]scripttest.RWWait{x}, x.Enter(1, 1, 2, scripttest.LongLease)},
	} {
		t.Run("refused/"+name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			for _, w := range tt.held {
				require.Equal(t, "1", b.Code(w.Try()))
			}
			before := b.Everything()
			full(t)
			_, err := b.Send(tt.script)
			require.ErrorContains(t, err, "OOM")
			require.Equal(t, before, b.Everything())
		})
	}
}

// Without a permission a script says so; a lock that may have no expiry goes,
// or becomes something that has one; a release frees the lock whatever becomes
// of the queue.
func TestRWScriptsPermission(t *testing.T) {
	s := redistest.Start(t)
	x, y, w := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "sf"), scripttest.RWWaitNamed("c5", 1, "wf")
	denied := func(b *scripttest.ReadWrite, script script.Call) {
		b.Helper()
		_, err := b.Send(script)
		var line redis.Error
		require.ErrorAs(b, err, &line)
		require.True(b, driver.IsDenied(line), line)
	}
	for name, script := range map[string]script.Call{
		"try": x.Try(), "enqueue": x.Enqueue(), "claim": x.Claim(), "cancel": x.Cancel(1), "poll": scripttest.RWPollAs("c1", string(x.Wait), 5),
		"enter": x.Enter(2, 0, 2, scripttest.LongLease), "renew": x.Renew(scripttest.LongLease), "release": x.Release(),
	} {
		t.Run("to read/"+name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			require.Equal(t, "1", b.Code(x.Try()))
			before := b.Everything()
			b.Deny(s, "-zrange")
			denied(b, script)
			require.Equal(t, before, b.Everything())
		})
	}
	t.Run("for an expiry", func(t *testing.T) {
		for _, script := range []script.Call{x.Try(), x.Enqueue()} {
			b := scripttest.NewReadWrite(t, s)
			b.Deny(s, "-pexpire")
			denied(b, script)
			require.Equal(t, int64(0), b.Do("EXISTS", b.Key, b.Key+":h"))
			b.Deny(s, "-pexpire", "-del")
			denied(b, script)
			require.Equal(t, []byte("relock/1|denied"), b.Do("GET", b.Key))
			b.Do("DEL", b.Key)
			b.Deny(s, "-zrem")
			denied(b, script)
			require.Equal(t, int64(0), b.Do("EXISTS", b.Key, b.Key+":h"))
		}
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "1", b.Code(y.Try()))
		before := b.Entry(y)
		b.Deny(s, "-pexpire")
		denied(b, x.Try())
		require.Equal(t, []string{y.Reads()}, b.Lock())
		denied(b, w.Enqueue())
		require.Empty(t, b.Waits())
		require.Equal(t, before, b.Entry(y))
		denied(b, y.Renew(scripttest.LongLease))
	})
	for name, rule := range map[string]string{"queue": "-zremrangebyrank", "reservation": "-pexpire", "publish": "-publish", "delete": "-del"} {
		t.Run("to hand over/"+name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			require.Equal(t, "1", b.Code(w.Try()))
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
			b.Stand(time.Minute, x)
			b.Deny(s, rule)
			require.Equal(t, "1", b.Code(w.Release()))
			require.NotContains(t, b.Lock(), w.Writes())
			b.Less = nil
			require.Equal(t, "1", b.Code(x.EnqueueAgain("5")), "the lock can be had")
			require.Equal(t, []string{x.Reads()}, b.Lock())
		})
	}
}
