package lua_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// End returns the request to look what has the wait's lock, or to end what has
// these names.
func (w Wait) End(how, reason string, names ...string) script.Call {
	return w.call(script.End, script.RWEnd, script.SemaphoreEnd, redis.Args{how, reason}.AddFlat(names)...)
}

// holdsOf returns the ids of the holds of waits.
func holdsOf(waits []Wait) (all []string) {
	for _, w := range waits {
		all = append(all, w.Hold())
	}
	return all
}

// frees returns the request to end all that these waits may have of a lock,
// without an acknowledgement.
func frees(waits ...Wait) script.Call {
	var names []string
	for _, w := range waits {
		names = append(names, w.Hold(), string(w))
	}
	return waits[0].End("free", "why", names...)
}

// requireShared checks the answer to an end: how many of the names are left.
func (b *Queue) requireShared(left int, call script.Call) {
	b.Helper()
	answer := b.Ask(call)
	require.Len(b, answer, 4)
	require.Equal(b, []string{strconv.Itoa(left), "1"}, []string{answer[0], answer[2]})
	require.Equal(b, left == 0, answer[1] == "0", answer[1])
}

// eachShared runs the test with a hold of each kind of sorted set, and a waiter
// that waits for it to end.
func eachShared(t *testing.T, test func(t *testing.T, w, next Wait)) {
	for letters, waits := range map[string]string{"su": "wf", "wf": "sf"} {
		t.Run(letters, func(t *testing.T) { test(t, WaitNamed("c9", 1, letters), WaitNamed("c1", 1, waits)) })
	}
	t.Run("permit", func(t *testing.T) { test(t, PermitNamed("c9", 1, "f", 1, 0), PermitNamed("c1", 1, "f", 1, 0)) })
}

// An end marks the hold, and tells its client. Nothing extends the hold from
// then on. Its release hands the lock off, and a late end finds nothing.
func TestRWEndMarks(t *testing.T) {
	eachShared(t, func(t *testing.T, w, next Wait) {
		b := NewHeld(t, server, w)
		b.Queued(next)
		l := b.Listen("c9")
		held, marked := []string{w.Held()}, []string{w.marked(w.Held())}
		require.Equal(t, []string{"1", "", w.Hold()}, b.Ask(w.End("look", "")))
		b.requireShared(0, w.End("end", "why", "another"))
		b.Require("another", held, next)
		before := b.Do("ZSCORE", b.Key, w.Held())
		b.requireShared(1, w.End("end", "why", "another", w.Hold()))
		b.Require("marked", marked, next)
		require.Equal(t, before, b.Do("ZSCORE", b.Key, marked[0]), "the same end")
		b.requireNotice(w.Hold(), "why")
		require.Equal(t, []string{"forced:" + w.Hold() + " " + b.Key}, l.Heard())

		b.requireShared(1, w.End("end", "another reason", w.Hold()))
		b.requireNotice(w.Hold(), "why")
		require.Equal(t, []string{"1", "", w.Hold()}, b.Ask(w.End("look", "")))
		require.Equal(t, "9", b.Code(w.Renew(LongLease)))
		require.Equal(t, "9", b.Code(w.Claim()), "its waiter")
		b.Require("nothing extends it", marked, next)

		require.Equal(t, "9", b.Code(w.Release()))
		b.requireShared(0, w.End("end", "late", w.Hold()))
		b.Require("handed off", []string{next.Reserved()})
	})
}

// Without an acknowledgement, the lock is handed off immediately, marked or
// not.
func TestRWEndFrees(t *testing.T) {
	eachShared(t, func(t *testing.T, w, next Wait) {
		for _, marked := range []bool{false, true} {
			b := NewHeld(t, server, w)
			b.Queued(next)
			if marked {
				b.requireShared(1, w.End("end", "why", w.Hold()))
			}
			b.requireShared(0, w.End("free", "now", w.Hold()))
			b.Require("freed", []string{next.Reserved()})
			b.requireNotice(w.Hold(), "now")
			require.Equal(t, "0", b.Code(w.Release()))
			gone := strings.Replace(string(next), "c1", "c8", 1)
			require.Equal(t, "1", b.Ask(w.End("end", "why", gone))[3])
			b.Require("another's reservation", []string{next.Reserved()})
			b.requireShared(0, w.End("end", "why", string(next)))
			b.Require("a reservation is nobody's", nil)
			require.Equal(t, "0", b.Code(w.End("look", "")))
			b.requireShared(0, w.End("end", "", w.Hold()))
			b.Clear()
		}
	})
}

// A permit that is freed stays taken for its minimum hold. What is kept has no
// name.
func TestRWEndKeepsPermits(t *testing.T) {
	w, other := PermitNamed("c9", 1, "f", 2, Keep), PermitNamed("c9", 2, "f", 2, Keep)
	b := NewHeld(t, server, w, other)
	b.requireShared(0, w.End("free", "why", w.Hold()))
	b.Require("kept", []string{w.Forced(), other.Reads()})
	require.Equal(t, []string{"1", "", other.Hold()}, b.Ask(w.End("look", "")))
	b.Do("ZREM", b.Key, "#"+other.Hold()) // a permit without a number has no minimum
	reply, err := b.over(b.sender(), w.End("end", "why", other.Hold()))
	require.NoError(t, err)
	require.Equal(t, "1", texts(reply)[0])
}

// A look has the names of many holds in pages. Those that end together are on
// one page.
func TestRWEndLooksInPages(t *testing.T) {
	w := PermitNamed("c9", 0, "f", 1000, 0)
	b := NewQueue(t, server)
	var want []string
	for i := range 600 {
		want = append(want, fmt.Sprintf("c9:%03d", i))
	}
	var entries []string
	for _, hold := range want {
		entries = append(entries, "r:"+hold)
	}
	for i, length := range []int{200, 300, 100} { // the first page ends among the second ones
		b.Put("cf", Lease+time.Duration(i)*time.Second, entries[:length]...)
		entries = entries[length:]
	}
	var got []string
	sizes := []int{}
	for cursor := ""; ; {
		page := b.Ask(w.End("look", cursor))
		got, sizes = append(got, page[2:]...), append(sizes, len(page)-2)
		if cursor = page[1]; cursor == "" {
			break
		}
	}
	require.Equal(t, []int{500, 100}, sizes)
	require.Equal(t, want, got)
	b.requireShared(256, w.End("end", "why", got[:256]...))
	require.Equal(t, int64(256), b.Do("HLEN", b.Key+script.NoticeSuffix))
}

// Keys of another kind and bad arguments are refused. A mark needs no memory.
func TestRWEndRefused(t *testing.T) {
	eachShared(t, func(t *testing.T, w, _ Wait) {
		s := redistest.Start(t)
		b := NewQueue(t, s)
		b.Do("SET", b.Key, "x", "PX", Lease.Milliseconds())
		require.Equal(t, "-1", b.Code(w.End("look", "")))
		require.Equal(t, "-1", b.Code(w.End("end", "", "any")))
		noReason := w.End("look", "")
		noReason.Args = noReason.Args[:1]
		tooMany := w.End("end", "", make([]string, 257)...)
		for _, bad := range []script.Call{w.End("seek", ""), w.End("look", "x"), noReason, tooMany} {
			b.RequireError(bad, "bad ")
		}
		b.Clear()
		b.RequireDone(w.Try())
		fillMemory(t, s)
		b.requireShared(1, w.End("end", "why", w.Hold()))
		b.Require("marked", []string{w.marked(w.Held())})
	})
}
