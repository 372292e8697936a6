package lua_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/script"
)

// Wait is a wait as scripts name it, of any kind of lock.
type Wait string

// WaitNamed returns the n-th wait of a client. The letters give its kind and
// mode: p, r, s or w, then f or u.
func WaitNamed(client string, n int, letters string) Wait {
	return Wait(fmt.Sprintf("%s:%d:%s:%d", client, n, letters, Claim.Milliseconds()))
}

// PermitNamed returns the n-th wait of a client for a semaphore, in a mode,
// with a number of permits and a minimum hold.
func PermitNamed(client string, n int, mode string, permits int, keep time.Duration) Wait {
	return WaitNamed(client, n, "c"+mode) + Wait(fmt.Sprintf(":%d:%d", permits, keep.Milliseconds()))
}

// Nobody is no waiter.
const Nobody = Wait("")

// How long a reservation of these tests' waits lasts, and the period of their
// clients.
const (
	Claim        = 7 * time.Second
	ScriptPeriod = time.Second
)

func (w Wait) parts() []string { return strings.Split(string(w), ":") }

// Client returns the client's id.
func (w Wait) Client() string  { return w.parts()[0] }
func (w Wait) letters() string { return w.parts()[2] }

// isReadWrite reports whether the lock is a sorted set.
func (w Wait) isReadWrite() bool {
	return w != Nobody && strings.Contains("swc", w.letters()[:1])
}

func (w Wait) isPermit() bool { return w != Nobody && w.letters()[0] == 'c' }

// Hold returns the id of the hold that the wait can become.
func (w Wait) Hold() string { return w.Client() + ":" + w.parts()[1] }

// Body returns the value that a plain lock stores, or the owner.
func (w Wait) Body() string {
	if letters := w.letters(); letters[0] == 'p' {
		return "relock/1|" + map[byte]string{'u': "p", 'f': "f"}[letters[1]] + "|" + w.Hold() + "|" + w.Client() + "|rest"
	}
	return w.Client() + ":g:1"
}

func (w Wait) info() string { return "relock/1|i|" + w.Client() + "|rest" }

// Held returns the text that [Queue.Lock] returns for the wait's hold.
func (w Wait) Held() string {
	switch letters := w.letters(); {
	case letters[0] == 's', letters[0] == 'c':
		return w.Reads()
	case letters[0] == 'w':
		return w.Writes()
	case letters == "ru":
		return "hash " + w.Body() + "=1 " + w.Hold() + " #1 " + w.info()
	case letters == "rf":
		return "hash " + w.Body() + "=1 " + w.Hold() + " #1 " + w.info() + " f"
	}
	return w.Body()
}

// Kept returns the entry of a permit that was released, and is kept.
func (w Wait) Kept() string { return "k:" + w.Hold() }

// Forced returns the entry of a permit that was ended by force, and is kept.
func (w Wait) Forced() string { return "f:" + w.Hold() }

// Reads returns the entry of a read hold or a permit, and Writes that of a
// write hold.
func (w Wait) Reads() string { return "r:" + w.Hold() }

// Writes returns the entry of a write hold.
func (w Wait) Writes() string { return "w:" + w.Hold() }

// Reserved returns what a lock holds that is reserved for the wait.
func (w Wait) Reserved() string {
	if w.isReadWrite() {
		return "v:" + string(w)
	}
	return "relock/1|w|" + string(w)
}

func (w Wait) call(s, readWrite, semaphore *script.Script, args ...any) script.Call {
	switch {
	case w.isPermit():
		s = semaphore
	case w.isReadWrite():
		s = readWrite
	}
	return script.Call{Script: s, Args: args}
}

// Try returns the request for a lock that is free.
func (w Wait) Try() script.Call {
	return w.call(script.Try, script.RWTry, script.SemaphoreTry, string(w), Lease.Milliseconds(), w.Body(), w.info())
}

// Claim returns the request of a waiter that was notified.
func (w Wait) Claim() script.Call {
	return w.call(script.Claim, script.RWClaim, script.SemaphoreClaim, string(w), Lease.Milliseconds(), w.Body(), w.info())
}

// Enqueue returns the request to wait.
func (w Wait) Enqueue() script.Call { return w.EnqueueAgain("", "") }

// EnqueueAgain returns the request to wait with an earlier ticket, or after an
// earlier hold.
func (w Wait) EnqueueAgain(ticket, earlier string) script.Call {
	return w.call(script.Enqueue, script.RWEnqueue, script.SemaphoreEnqueue, string(w),
		ScriptPeriod.Milliseconds(), ticket, earlier, Lease.Milliseconds(), w.Body(), w.info())
}

// EnqueueLimited returns the request to wait in a queue of limited length.
func (w Wait) EnqueueLimited(ticket string, limit any) script.Call {
	s := w.EnqueueAgain(ticket, "")
	s.Args = append(s.Args, limit)
	return s
}

// Cancel returns the request that removes the wait, with its hold if alsoHold
// is 1.
func (w Wait) Cancel(alsoHold int) script.Call {
	return w.call(script.Cancel, script.RWCancel, script.SemaphoreCancel, string(w), alsoHold)
}

// Release returns the request that releases the wait's hold.
func (w Wait) Release() script.Call {
	switch {
	case w.isPermit():
		return script.Call{Script: script.SemaphoreRelease, Args: []any{w.Hold()}}
	case w.isReadWrite():
		return w.Leave(0, 0, 2)
	}
	return w.ReleaseAndKeep(0)
}

// ReleaseAndKeep is Release of a plain or reentrant hold, whose key stays for a
// while.
func (w Wait) ReleaseAndKeep(keep time.Duration) script.Call {
	if w.letters()[0] == 'p' {
		return script.Call{Script: script.Release, Args: []any{w.Body(), keep.Milliseconds(), "relock/1|k"}}
	}
	return script.Call{Script: script.ReentrantRelease, Args: []any{w.Body(), w.Hold(), 0, 2, keep.Milliseconds()}}
}

// Enter returns the request for another number of levels of a read/write lock.
func (w Wait) Enter(reads, writes, seq int, lease time.Duration) script.Call {
	return script.Call{Script: script.RWEnter, Args: []any{w.Hold(), reads, writes, seq, lease.Milliseconds()}}
}

// Leave returns the request for fewer levels of a read/write lock.
func (w Wait) Leave(reads, writes, seq int) script.Call {
	return script.Call{Script: script.RWRelease, Args: []any{w.Hold(), reads, writes, seq}}
}

// Renew returns the renewal of the wait's hold.
func (w Wait) Renew(lease time.Duration) script.Call {
	switch w.letters()[0] {
	case 'p':
		return RenewOf(w.Body(), lease)
	case 'r':
		return ReentrantRenewOf(w.Hold(), lease)
	}
	return w.call(nil, script.RWRenew, script.SemaphoreRenew, w.Hold(), lease.Milliseconds())
}

// PollAs returns the poll of a client.
func PollAs(client string, listed ...any) script.Call {
	return script.Call{Script: script.Poll, Args: append([]any{client, ScriptPeriod.Milliseconds()}, listed...)}
}

// RWPollAs returns the poll of a client for a read/write lock.
func RWPollAs(client string, listed ...any) script.Call {
	return script.Call{Script: script.RWPoll, Args: append([]any{client, ScriptPeriod.Milliseconds()}, listed...)}
}

// Poll returns the poll of the wait's client for its kind of lock.
func (w Wait) Poll(listed ...any) script.Call {
	s := PollAs(w.Client(), listed...)
	return w.call(s.Script, script.RWPoll, script.SemaphorePoll, s.Args...)
}

// The cancels of no waiter hand off a lock that is free.
var (
	CancelNobody          = Nobody.Cancel(0)
	RWCancelNobody        = script.Call{Script: script.RWCancel, Args: CancelNobody.Args}
	SemaphoreCancelNobody = script.Call{Script: script.SemaphoreCancel, Args: CancelNobody.Args}
)

// gone is a client that no longer runs.
const gone = "gone"

// StaleWaits returns n waits of a client that no longer runs.
func StaleWaits(n int, letters string) (all []Wait) {
	for i := range n {
		all = append(all, WaitNamed(gone, i+1, letters))
	}
	return all
}
