package scripttest

import (
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/script"
)

// Wait is a wait as scripts name it.
type Wait string

// WaitNamed returns the n-th wait of a client. The letters give its kind.
func WaitNamed(client string, n int, letters string) Wait {
	return Wait(fmt.Sprintf("%s:%d:%s:%d", client, n, letters, Claim.Milliseconds()))
}

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

// Hold returns the id of the hold that the wait can become.
func (w Wait) Hold() string { return w.Client() + ":" + w.parts()[1] }

// Body returns the value that a plain lock stores, or the owner.
func (w Wait) Body() string {
	switch w.letters() {
	case "pu":
		return "relock/1|p|" + w.Hold() + "|rest"
	case "pf":
		return "relock/1|f|" + w.Hold() + "|rest"
	}
	return w.Client() + ":g:1"
}

// Held returns the text that [Queue.Lock] returns for the wait's hold.
func (w Wait) Held() string {
	switch w.letters() {
	case "ru":
		return "hash " + w.Client() + ":g:1=1 " + w.Hold() + " #1 info"
	case "rf":
		return "hash " + w.Client() + ":g:1=1 " + w.Hold() + " #1 info f"
	}
	return w.Body()
}

// Reserved returns the value of a lock that is reserved for the wait.
func (w Wait) Reserved() string { return "relock/1|w|" + string(w) }

func (w Wait) asked() []any { return []any{Lease.Milliseconds(), w.Body(), "info"} }

// Try returns the request for a lock that is free.
func (w Wait) Try() script.Call {
	return script.Call{Script: script.Try, Args: append([]any{string(w)}, w.asked()...)}
}

// Enqueue returns the request to wait.
func (w Wait) Enqueue() script.Call { return w.EnqueueAgain("", "") }

// EnqueueAgain returns the request to wait with an earlier ticket.
func (w Wait) EnqueueAgain(ticket, earlier string) script.Call {
	args := []any{string(w), ScriptPeriod.Milliseconds(), ticket, earlier}
	return script.Call{Script: script.Enqueue, Args: append(args, w.asked()...)}
}

// Claim returns the request of a waiter that was notified.
func (w Wait) Claim() script.Call {
	return script.Call{Script: script.Claim, Args: append([]any{string(w)}, w.asked()...)}
}

// Cancel returns the request that removes the wait.
func (w Wait) Cancel(alsoHold int) script.Call {
	return script.Call{Script: script.Cancel, Args: []any{string(w), alsoHold}}
}

// Release returns the request that releases the wait's hold.
func (w Wait) Release() script.Call {
	if w.letters()[0] == 'p' {
		return script.Call{Script: script.Release, Args: []any{w.Body(), 0, ""}}
	}
	return script.Call{Script: script.ReentrantRelease, Args: []any{w.Body(), w.Hold(), 0, 2, 0}}
}

// Nobody is no waiter.
const Nobody = Wait("")

// PollAs returns the poll of a client.
func PollAs(client string, listed ...any) script.Call {
	return script.Call{Script: script.Poll, Args: append([]any{client, ScriptPeriod.Milliseconds()}, listed...)}
}
