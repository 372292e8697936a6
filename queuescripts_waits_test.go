package relock

import (
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/script"
)

// scriptWait is a wait as scripts name it.
type scriptWait string

func waitNamed(client string, n int, letters string) scriptWait {
	return scriptWait(fmt.Sprintf("%s:%d:%s:%d", client, n, letters, scriptClaim.Milliseconds()))
}

// Of the waits of these tests: how long a reservation lasts, and the period of their clients.
const (
	scriptClaim  = 7 * time.Second
	scriptPeriod = time.Second
)

func (w scriptWait) parts() []string { return strings.Split(string(w), ":") }
func (w scriptWait) client() string  { return w.parts()[0] }
func (w scriptWait) letters() string { return w.parts()[2] }
func (w scriptWait) hold() string    { return w.client() + ":" + w.parts()[1] }

// body is the value that a plain lock stores, or the owner.
func (w scriptWait) body() string {
	switch w.letters() {
	case "pu":
		return "relock/1|p|" + w.hold() + "|rest"
	case "pf":
		return "relock/1|f|" + w.hold() + "|rest"
	}
	return w.client() + ":g:1"
}

// held is how queueScripts.lock tells of the wait's hold.
func (w scriptWait) held() string {
	switch w.letters() {
	case "ru":
		return "hash " + w.client() + ":g:1=1 " + w.hold() + " #1 info"
	case "rf":
		return "hash " + w.client() + ":g:1=1 " + w.hold() + " #1 info f"
	}
	return w.body()
}

func (w scriptWait) reserved() string { return "relock/1|w|" + string(w) }

func (w scriptWait) asked() []any { return []any{scriptLease.Milliseconds(), w.body(), "info"} }

func (w scriptWait) try() script.Call {
	return script.Call{Script: script.Try, Args: append([]any{string(w)}, w.asked()...)}
}

func (w scriptWait) enqueue() script.Call { return w.enqueueAgain("", "") }

func (w scriptWait) enqueueAgain(ticket, earlier string) script.Call {
	args := []any{string(w), scriptPeriod.Milliseconds(), ticket, earlier}
	return script.Call{Script: script.Enqueue, Args: append(args, w.asked()...)}
}

func (w scriptWait) claim() script.Call {
	return script.Call{Script: script.Claim, Args: append([]any{string(w)}, w.asked()...)}
}

func (w scriptWait) cancel(alsoHold int) script.Call {
	return script.Call{Script: script.Cancel, Args: []any{string(w), alsoHold}}
}

// release gives back the wait's hold.
func (w scriptWait) release() script.Call {
	if w.letters()[0] == 'p' {
		return script.Call{Script: script.Release, Args: []any{w.body(), 0, ""}}
	}
	return script.Call{Script: script.ReentrantRelease, Args: []any{w.body(), w.hold(), 0, 2, 0}}
}

const nobody = scriptWait("")

func pollAs(client string, listed ...any) script.Call {
	return script.Call{Script: script.Poll, Args: append([]any{client, scriptPeriod.Milliseconds()}, listed...)}
}
