package scripttest

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

// Tests of the scripts of a read/write lock, on a real server.

// RWWait is a wait for a read/write lock, as its scripts name it.
type RWWait struct{ Wait }

// RWWaitNamed returns the n-th wait of a client. The letters give its kind.
func RWWaitNamed(client string, n int, letters string) RWWait {
	return RWWait{WaitNamed(client, n, letters)}
}

// Try returns the request for a lock that is free.
func (w RWWait) Try() script.Call { return w.asks(script.RWTry) }

// Claim returns the request of a waiter that was notified.
func (w RWWait) Claim() script.Call { return w.asks(script.RWClaim) }

// Enqueue returns the request to wait.
func (w RWWait) Enqueue() script.Call { return w.EnqueueAgain("") }

func (w RWWait) asks(s *script.Script) script.Call {
	return script.Call{Script: s, Args: append([]any{string(w.Wait)}, w.asked()...)}
}

// EnqueueAgain returns the request to wait with an earlier ticket.
func (w RWWait) EnqueueAgain(ticket string) script.Call {
	args := []any{string(w.Wait), ScriptPeriod.Milliseconds(), ticket, ""}
	return script.Call{Script: script.RWEnqueue, Args: append(args, w.asked()...)}
}

// Cancel returns the request that removes the wait.
func (w RWWait) Cancel(alsoHold int) script.Call {
	return script.Call{Script: script.RWCancel, Args: []any{string(w.Wait), alsoHold}}
}

// Enter returns the request for another number of levels.
func (w RWWait) Enter(reads, writes, seq int, lease time.Duration) script.Call {
	return script.Call{Script: script.RWEnter, Args: []any{w.Hold(), reads, writes, seq, lease.Milliseconds()}}
}

// Renew returns the renewal of its hold.
func (w RWWait) Renew(lease time.Duration) script.Call {
	return script.Call{Script: script.RWRenew, Args: []any{w.Hold(), lease.Milliseconds()}}
}

// Release returns the request that releases the wait's hold.
func (w RWWait) Release() script.Call { return w.Leave(0, 0, 2) }

// Leave returns the request for fewer levels.
func (w RWWait) Leave(reads, writes, seq int) script.Call {
	return script.Call{Script: script.RWRelease, Args: []any{w.Hold(), reads, writes, seq}}
}

// Reads returns the entry that Lock returns for a read hold.
func (w RWWait) Reads() string { return "r:" + w.Hold() }

// Writes returns the entry that Lock returns for a write hold.
func (w RWWait) Writes() string { return "w:" + w.Hold() }

// Reserved returns the entry that Lock returns for a reservation.
func (w RWWait) Reserved() string { return "v:" + string(w.Wait) }

// RWPollAs returns the poll of a client.
func RWPollAs(client string, listed ...any) script.Call {
	return script.Call{Script: script.RWPoll, Args: append([]any{client, ScriptPeriod.Milliseconds()}, listed...)}
}

// RWNobody is no waiter.
var RWNobody = RWWait{Nobody}

// ReadWrite runs scripts on one lock. After each script, every key must have an
// expiry.
type ReadWrite struct{ *Queue }

// NewReadWrite returns a bench for the scripts of read/write locks.
func NewReadWrite(t testing.TB, s *redistest.Server) *ReadWrite {
	b := &ReadWrite{NewQueue(t, s)}
	b.Do("DEL", b.Key+":h")
	return b
}

// Code runs a script and returns the first part of its reply.
func (b *ReadWrite) Code(s script.Call) string {
	b.Helper()
	code := b.Queue.Code(s)
	require.NotEqual(b, int64(-1), b.Do("PTTL", b.Key+":h"), "the notes would stay for ever")
	b.RequireWhole()
	return code
}

// RequireWhole checks that a write hold, or a reservation to write, is the only
// entry. Each hold must have its number, and the lock must expire with its last
// entry.
func (b *ReadWrite) RequireWhole() {
	b.Helper()
	if kind := b.Do("TYPE", b.Key); kind != "zset" {
		return
	}
	all := ReadRW(b, b.Conn, b.Key)
	for _, e := range all {
		if e.Kind == "w" || e.Kind == "v" && Wait(e.name).letters()[0] == 'w' {
			require.Len(b, all, 1, "beside one that writes: %v", all)
		}
		require.Equal(b, e.Kind != "v", e.Seq > 0, "%v", e)
	}
	if ends := b.lastEnd(all) - b.Now()/1000; ends > 0 {
		left, err := redis.Int64(b.Do("PTTL", b.Key), nil)
		require.NoError(b, err)
		require.InDelta(b, ends, left, 1000)
	}
}

// lastEnd returns when the last entry ends, in ms.
func (b *ReadWrite) lastEnd(all []RWEntry) int64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Until / 1000
}

// Lock returns the entries, in alphabetical order.
func (b *ReadWrite) Lock() []string {
	b.Helper()
	all := []string{}
	for _, e := range ReadRW(b, b.Conn, b.Key) {
		all = append(all, e.Kind+":"+e.name)
	}
	slices.Sort(all)
	return all
}

// Entry returns the entry of a hold.
func (b *ReadWrite) Entry(w RWWait) RWEntry {
	b.Helper()
	for _, e := range ReadRW(b, b.Conn, b.Key) {
		if e.name == w.Hold() {
			return e
		}
	}
	require.FailNow(b, "no such hold", "%s", w.Hold())
	return RWEntry{}
}

// Left returns the time that a hold has left.
func (b *ReadWrite) Left(w RWWait) time.Duration {
	b.Helper()
	return time.Duration(b.Entry(w).Until-b.Now()) * time.Microsecond
}

// Put stores entries of the lock without a script. They end after the duration
// left.
func (b *ReadWrite) Put(mode string, left time.Duration, entries ...string) {
	b.Helper()
	at := b.Now() + left.Microseconds()
	b.Do("ZADD", b.Key, "inf", "relock/1|"+mode)
	for _, entry := range entries {
		b.Do("ZADD", b.Key, at, entry)
		if entry[0] != 'v' {
			b.Do("ZADD", b.Key, -1, "#"+entry[2:])
			b.Do("HSET", b.Key+":h", entry[2:], "1:0|info|owner")
		}
	}
	left = max(left, time.Minute)
	for _, e := range ReadRW(b, b.Conn, b.Key) {
		if e.Until > b.Now() {
			left = time.Duration(e.Until-b.Now()) * time.Microsecond
		}
	}
	b.Do("PEXPIRE", b.Key, left.Milliseconds()+1)
	b.Do("PEXPIRE", b.Key+":h", left.Milliseconds()+1)
}

// RWStep is one script, its reply, and the state of the lock and its queue
// after it.
type RWStep struct {
	name   string
	script script.Call
	answer string
	lock   []string
	waits  []RWWait
}

// Step returns a step: a request, its reply, and the lock's entries and waits
// after it.
func Step(name string, s script.Call, answer string, lock []string, waits []RWWait) RWStep {
	return RWStep{name, s, answer, lock, waits}
}

// Steps runs the steps and checks each.
func (b *ReadWrite) Steps(steps ...RWStep) {
	b.Helper()
	for _, step := range steps {
		require.Equal(b, step.answer, b.Code(step.script), step.name)
		lock := append([]string{}, step.lock...)
		slices.Sort(lock)
		require.Equal(b, lock, b.Lock(), step.name)
		b.RequireQueue(step.name, step.waits...)
	}
}

// RequireQueue checks the waits in the queue and their order.
func (b *ReadWrite) RequireQueue(name string, waits ...RWWait) {
	b.Helper()
	want := []string{}
	for _, w := range waits {
		want = append(want, string(w.Wait))
	}
	require.Equal(b, want, b.Waits(), name)
}

// Stand puts waits into the queue in this order. The first has waited for the
// duration ago.
func (b *ReadWrite) Stand(ago time.Duration, waits ...RWWait) {
	b.Helper()
	members := make([]Wait, len(waits))
	for i, w := range waits {
		members[i] = w.Wait
	}
	b.Line(ago, members...)
}

// Everything returns all that the server stores.
func (b *ReadWrite) Everything() string {
	b.Helper()
	var all []string
	for _, key := range []string{b.Key, b.QueueKey(), b.BeatsKey(), b.Key + ":h"} {
		all = append(all, b.Content(key))
	}
	return fmt.Sprint(all)
}

// RWGone returns n waits of a client that no longer runs.
func RWGone(n int, letters string) (all []RWWait) {
	for i := range n {
		all = append(all, RWWaitNamed("gone", i+1, letters))
	}
	return all
}
