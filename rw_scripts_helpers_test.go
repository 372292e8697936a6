package relock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// The scripts of a read/write lock by themselves, on a real server.

// rwWait is a wait for a read/write lock, as its scripts name it.
type rwWait struct{ scriptWait }

func rwWaitNamed(client string, n int, letters string) rwWait {
	return rwWait{waitNamed(client, n, letters)}
}

func (w rwWait) try() script.Call     { return w.asks(script.RWTry) }
func (w rwWait) claim() script.Call   { return w.asks(script.RWClaim) }
func (w rwWait) enqueue() script.Call { return w.enqueueAgain("") }

func (w rwWait) asks(s *script.Script) script.Call {
	return script.Call{Script: s, Args: append([]any{string(w.scriptWait)}, w.asked()...)}
}

func (w rwWait) enqueueAgain(ticket string) script.Call {
	args := []any{string(w.scriptWait), scriptPeriod.Milliseconds(), ticket, ""}
	return script.Call{Script: script.RWEnqueue, Args: append(args, w.asked()...)}
}

func (w rwWait) cancel(alsoHold int) script.Call {
	return script.Call{Script: script.RWCancel, Args: []any{string(w.scriptWait), alsoHold}}
}

func (w rwWait) enter(reads, writes, seq int, lease time.Duration) script.Call {
	return script.Call{Script: script.RWEnter, Args: []any{w.hold(), reads, writes, seq, lease.Milliseconds()}}
}

func (w rwWait) renew(lease time.Duration) script.Call {
	return script.Call{Script: script.RWRenew, Args: []any{w.hold(), lease.Milliseconds()}}
}

// release gives the hold of the wait back.
func (w rwWait) release() script.Call { return w.leave(0, 0, 2) }

func (w rwWait) leave(reads, writes, seq int) script.Call {
	return script.Call{Script: script.RWRelease, Args: []any{w.hold(), reads, writes, seq}}
}

// reads, writes and reserved are how rwBench.lock tells of the wait's hold, and of its reservation.
func (w rwWait) reads() string    { return "r:" + w.hold() }
func (w rwWait) writes() string   { return "w:" + w.hold() }
func (w rwWait) reserved() string { return "v:" + string(w.scriptWait) }

func rwPollAs(client string, listed ...any) script.Call {
	return script.Call{Script: script.RWPoll, Args: append([]any{client, scriptPeriod.Milliseconds()}, listed...)}
}

var rwNobody = rwWait{nobody}

// rwBench runs the scripts on one lock. After each of them none of the keys may be without an expiry.
type rwBench struct{ *queueScripts }

func newRWBench(t testing.TB, s *redistest.Server) *rwBench {
	b := &rwBench{newQueueScripts(t, s)}
	b.do("DEL", b.key+":h")
	return b
}

func (b *rwBench) code(s script.Call) string {
	b.Helper()
	code := b.queueScripts.code(s)
	require.NotEqual(b, int64(-1), b.do("PTTL", b.key+":h"), "the notes would stay for ever")
	b.requireWhole()
	return code
}

// requireWhole: what writes, or is to, has nothing beside it; each hold has its number, and the lock ends with its last entry.
func (b *rwBench) requireWhole() {
	b.Helper()
	if kind := b.do("TYPE", b.key); kind != "zset" {
		return
	}
	all := readRW(b, b.conn, b.key)
	for _, e := range all {
		if e.kind == "w" || e.kind == "v" && scriptWait(e.name).letters()[0] == 'w' {
			require.Len(b, all, 1, "beside one that writes: %v", all)
		}
		require.Equal(b, e.kind != "v", e.seq > 0, "%v", e)
	}
	if ends := b.lastEnd(all) - b.now()/1000; ends > 0 {
		left, err := redis.Int64(b.do("PTTL", b.key), nil)
		require.NoError(b, err)
		require.InDelta(b, ends, left, 1000)
	}
}

// lastEnd is when the last entry ends, in ms.
func (b *rwBench) lastEnd(all []rwEntry) int64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].until / 1000
}

// lock are the entries, in alphabetical order.
func (b *rwBench) lock() []string {
	b.Helper()
	all := []string{}
	for _, e := range readRW(b, b.conn, b.key) {
		all = append(all, e.kind+":"+e.name)
	}
	slices.Sort(all)
	return all
}

// entry is the one of a hold.
func (b *rwBench) entry(w rwWait) rwEntry {
	b.Helper()
	for _, e := range readRW(b, b.conn, b.key) {
		if e.name == w.hold() {
			return e
		}
	}
	require.FailNow(b, "no such hold", "%s", w.hold())
	return rwEntry{}
}

// left is what is left of a hold.
func (b *rwBench) left(w rwWait) time.Duration {
	b.Helper()
	return time.Duration(b.entry(w).until-b.now()) * time.Microsecond
}

// put sets entries of the lock by hand, which end so long from now.
func (b *rwBench) put(mode string, left time.Duration, entries ...string) {
	b.Helper()
	at := b.now() + left.Microseconds()
	b.do("ZADD", b.key, "inf", "relock/1|"+mode)
	for _, entry := range entries {
		b.do("ZADD", b.key, at, entry)
		if entry[0] != 'v' {
			b.do("ZADD", b.key, -1, "#"+entry[2:])
			b.do("HSET", b.key+":h", entry[2:], "1:0|info|owner")
		}
	}
	left = max(left, time.Minute)
	for _, e := range readRW(b, b.conn, b.key) {
		if e.until > b.now() {
			left = time.Duration(e.until-b.now()) * time.Microsecond
		}
	}
	b.do("PEXPIRE", b.key, left.Milliseconds()+1)
	b.do("PEXPIRE", b.key+":h", left.Milliseconds()+1)
}

// rwStep is one script, its answer, and what the lock and its queue are afterwards.
type rwStep struct {
	name   string
	script script.Call
	answer string
	lock   []string
	waits  []rwWait
}

func (b *rwBench) steps(steps ...rwStep) {
	b.Helper()
	for _, step := range steps {
		require.Equal(b, step.answer, b.code(step.script), step.name)
		lock := append([]string{}, step.lock...)
		slices.Sort(lock)
		require.Equal(b, lock, b.lock(), step.name)
		b.requireQueue(step.name, step.waits...)
	}
}

func (b *rwBench) requireQueue(name string, waits ...rwWait) {
	b.Helper()
	want := []string{}
	for _, w := range waits {
		want = append(want, string(w.scriptWait))
	}
	require.Equal(b, want, b.waits(), name)
}

// stand puts waits into the queue, the first of which came so long ago.
func (b *rwBench) stand(ago time.Duration, waits ...rwWait) {
	b.Helper()
	members := make([]scriptWait, len(waits))
	for i, w := range waits {
		members[i] = w.scriptWait
	}
	b.line(ago, members...)
}

// everything is all that the server has.
func (b *rwBench) everything() string {
	b.Helper()
	var all []string
	for _, key := range []string{b.key, b.queue(), b.beats(), b.key + ":h"} {
		all = append(all, b.content(key))
	}
	return fmt.Sprint(all)
}

// rwGone are so many waits of a client that is gone.
func rwGone(n int, letters string) (all []rwWait) {
	for i := range n {
		all = append(all, rwWaitNamed("gone", i+1, letters))
	}
	return all
}
