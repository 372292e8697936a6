package lua_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

var lookAt = script.Call{Script: script.End, Args: []any{"look", ""}}

// EndOf returns the request to end what has these names. How is "end", or
// "free" for no acknowledgement.
func EndOf(how, reason string, names ...string) script.Call {
	return script.Call{Script: script.End, Args: redis.Args{how, reason}.AddFlat(names)}
}

// requireLeft checks the answer to an end: how many of the names are left, and
// that the last one ends with the lock.
func (b *Queue) requireLeft(left int, call script.Call) {
	b.Helper()
	answer := b.Ask(call)
	require.Len(b, answer, 4)
	require.Equal(b, strconv.Itoa(left), answer[0])
	require.Equal(b, "1", answer[2])
	if ms, err := strconv.Atoi(answer[1]); left > 0 {
		require.NoError(b, err)
		RequireExpiry(b, time.Duration(ms)*time.Millisecond, b.State().TTL)
	}
}

func (b *Queue) requireNotice(hold, reason string) {
	b.Helper()
	fields, err := redis.StringMap(b.Do("HGETALL", b.Key+script.NoticeSuffix), nil)
	require.NoError(b, err)
	require.Equal(b, map[string]string{hold: reason}, fields)
	left, err := redis.Int64(b.Do("PTTL", b.Key+script.NoticeSuffix), nil)
	require.NoError(b, err)
	require.Positive(b, left)
}

// An end marks the hold, and tells its client. Nothing extends the hold from
// then on. Its release hands the lock off, and a late end finds nothing.
func TestEndMarks(t *testing.T) {
	for _, letters := range allLetters {
		t.Run(letters, func(t *testing.T) {
			w, next := WaitNamed("c9", 1, letters), WaitNamed("c1", 1, letters)
			b := NewHeld(t, server, w)
			b.Queued(next)
			l := b.Listen("c9")
			held, marked := []string{w.Held()}, []string{w.marked(w.Held())}
			require.Equal(t, []string{"1", "", w.Hold()}, b.Ask(lookAt))
			b.requireLeft(0, EndOf("end", "why", "another"))
			b.Require("another", held, next)
			b.Do("PEXPIRE", b.Key, Keep.Milliseconds())
			b.requireLeft(1, EndOf("end", "why", "another", w.Hold()))
			b.Require("marked", marked, next)
			b.requireNotice(w.Hold(), "why")
			require.Equal(t, []string{"forced:" + w.Hold() + " " + b.Key}, l.Heard())

			b.requireLeft(1, EndOf("end", "another reason", w.Hold()))
			b.requireNotice(w.Hold(), "why")
			require.Equal(t, []string{"1", "", w.Hold()}, b.Ask(lookAt))
			require.Equal(t, "9", b.Code(w.Renew(LongLease)))
			require.Equal(t, "9", b.Code(w.Claim()), "its waiter")
			b.Require("nothing extends it", marked, next)
			require.LessOrEqual(t, b.State().TTL, Keep)

			require.Equal(t, "9", b.Code(w.Release()))
			b.requireLeft(0, EndOf("end", "late", w.Hold()))
			b.Require("handed off", []string{next.Reserved()})
		})
	}
}

// Without an acknowledgement, the lock is handed off immediately, marked or
// not.
func TestEndFrees(t *testing.T) {
	for _, letters := range allLetters {
		for _, marked := range []bool{false, true} {
			w, next := WaitNamed("c9", 1, letters), WaitNamed("c1", 1, letters)
			b := NewHeld(t, server, w)
			b.Queued(next)
			if marked {
				b.requireLeft(1, EndOf("end", "why", w.Hold()))
			}
			b.requireLeft(0, EndOf("free", "now", w.Hold()))
			b.Require("freed", []string{next.Reserved()})
			b.requireNotice(w.Hold(), "now")
			require.Contains(t, []string{"0", "-1"}, b.Code(w.Release()), "the reservation is of no kind")
			b.Clear()
		}
	}
}

// What nobody has is handed off immediately: it has no client that could
// acknowledge the end.
func TestEndOfWhatNobodyHas(t *testing.T) {
	waiter := WaitNamed("c2", 1, "pu")
	for held, name := range map[string]string{
		"relock/1|k|h|c|h|1|l|2":            "kept:h",
		"relock/1|denied":                   "relock/1|denied",
		"relock/1|p|:h|c|h|1|l|2":           ":h",
		waiter.Reserved():                   string(waiter),
		"hash c9:g:1=1 kept:h #1 relock/1|": "kept:h",
		"hash :d=1 :h #1 relock/1|r|c|h":    ":h",
		"hash c9:g:1=1 h #1 unreadable":     "h",
	} {
		b := NewQueue(t, server)
		b.Store(held)
		require.Equal(t, []string{"1", "", name}, b.Ask(lookAt), held)
		b.requireLeft(0, EndOf("end", "why", name))
		b.Require(held, nil)
		if name == ":h" { // somebody may resume it
			b.requireNotice(name, "why")
			b.Do("DEL", b.Key+script.NoticeSuffix)
		}
		require.Equal(t, int64(0), b.Do("EXISTS", b.Key+script.NoticeSuffix), "only a holder has a notice")
		require.Equal(t, "0", b.Code(lookAt), held)
	}
}

// A reservation that a message may have granted is left alone until it is
// claimed. It is freed without an acknowledgement only.
func TestEndOfAGrantByMessage(t *testing.T) {
	w := nonced("c1", 1, "pu")
	b := NewQueue(t, server)
	b.Store(w.Reserved())
	b.requireLeft(1, EndOf("end", "why", string(w)))
	b.Require("left alone", []string{w.Reserved()})
	b.RequireDone(w.Claim())
	require.Equal(t, []string{"0", "0", "1", "1"}, b.Ask(EndOf("end", "why", string(w))), "its reservation has gone")
	b.Require("the hold has another name", []string{w.Held()})
	b.Clear()
	b.Store(w.Reserved())
	l := b.Listen("c1")
	b.requireLeft(0, EndOf("free", "why", string(w)))
	b.Require("freed", nil)
	b.requireNotice(string(w), "why")
	require.Equal(t, []string{"forced:" + string(w) + " " + b.Key}, l.Heard())
}

// Of a free lock, an end hands off what is queued. A key of another kind and
// bad arguments are refused.
func TestEndOfNothing(t *testing.T) {
	b := NewQueue(t, server)
	require.Equal(t, "0", b.Code(lookAt))
	next := WaitNamed("c1", 1, "pf")
	b.RequireDone(WaitNamed("c9", 1, "pu").Try())
	b.Queued(next)
	b.Do("DEL", b.Key)
	b.requireLeft(0, EndOf("end", "", "any"))
	b.Require("handed off", []string{next.Reserved()})
	b.Clear()
	b.Do("SADD", b.Key, "x")
	b.Do("PEXPIRE", b.Key, Lease.Milliseconds())
	require.Equal(t, "-1", b.Code(lookAt))
	require.Equal(t, "-1", b.Code(EndOf("end", "", "any")))
	for _, bad := range []script.Call{
		EndOf("seek", ""), {Script: script.End, Args: []any{"look"}}, EndOf("end", "", make([]string, 257)...),
	} {
		b.RequireError(bad, "bad arguments")
	}
}

// A key that lost its expiry keeps none: only a free ends it.
func TestEndOfALockWithoutExpiry(t *testing.T) {
	for _, letters := range allLetters {
		w := WaitNamed("c9", 1, letters)
		b := NewHeld(t, server, w)
		b.Do("PERSIST", b.Key)
		reply, err := b.over(b.sender(), EndOf("end", "why", w.Hold()))
		require.NoError(t, err)
		require.Equal(t, []string{"1", "-1", "1", "0"}, texts(reply))
		require.Equal(t, int64(-1), b.Do("PTTL", b.Key))
		b.requireLeft(0, EndOf("free", "why", w.Hold()))
		b.Require("freed", nil)
		b.Clear()
	}
}

// A mark needs no memory.
func TestEndOutOfMemory(t *testing.T) {
	s := redistest.Start(t)
	for _, letters := range allLetters {
		w := WaitNamed("c9", 1, letters)
		b := NewHeld(t, s, w)
		held := []string{w.marked(w.Held())}
		fillMemory(t, s)
		b.requireLeft(1, EndOf("end", "why", w.Hold()))
		b.Require(letters, held)
		s.Do(t, "CONFIG", "SET", "maxmemory", "0")
		b.Clear()
	}
}
