package acquire

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/waitqueue"
)

// hint warns, after one lease, of a call that waits for its own client.
type hint struct {
	*time.Timer
	lease.Waiting

	clients []*lease.Manager // that may have the lock
	only    [1]*lease.Manager
}

// Nodes are the servers of a call for a lock on several of them. It notes the
// outages of each.
type Nodes interface {
	// Clients returns the clients of the servers.
	Clients() []*lease.Manager
	// Life returns a context that is cancelled when so many clients were closed
	// that the call cannot get the lock.
	Life() context.Context
	// NoteServers notes which servers were missing in the last attempt, which
	// has ended with err.
	NoteServers(err error)
	// EndOutages ends the call's part in the outages of its servers. The call
	// has ended with err.
	EndOutages(err error)
}

// life returns a context that is cancelled when the client is closed, or too
// many clients of a lock on several servers.
func (w *Wait) life() context.Context {
	if w.Nodes != nil {
		return w.Nodes.Life()
	}
	return w.client.Life
}

// nextPause returns the rest that the last attempt has computed. Without one,
// it returns the poll interval and up to a fifth more. The interval grows while
// the server answers with errors or not at all. While a Cluster moves the keys,
// which ends soon, it stays as it is.
func (w *Wait) nextPause(err error) time.Duration {
	poll := w.Settings.Poll
	if w.Rest > 0 {
		w.pause = poll
		return w.Rest
	}
	if errors.Is(err, errs.ErrLockAcquiredByOthers) || driver.IsHalfMoved(err) {
		w.pause = poll
	} else {
		w.pause = max(poll, min(2*w.pause, waitqueue.MaxPause))
	}
	return w.pause + rand.N(w.pause/5+1)
}

// begin counts the call as waiting, until its end. The first time that it waits
// for a key, it sets the timer of the hint.
func (w *Wait) begin() {
	if w.hint == nil || w.hint.Key != w.Key {
		w.stopHint()
		w.hint = w.newHint(time.Now())
		w.hint.Timer = time.AfterFunc(w.Settings.Lease, w.hint.ring)
	}
	if !w.counted {
		w.counted = true
		w.client.Waiting.Add(1)
	}
}

// newHint returns the hint of a call that has waited since then, without its
// timer.
func (w *Wait) newHint(since time.Time) *hint {
	h := &hint{Waiting: lease.Waiting{Key: w.Key, Owner: w.Owner, Since: since, Kind: w.Settings.Kind}}
	if w.Nodes != nil {
		h.clients = w.Nodes.Clients()
	} else {
		h.only[0] = w.client
		h.clients = h.only[:]
	}
	return h
}

func (h *hint) ring() { h.clients[0].Tasks.Start(h.warn) }

// warn logs the hint, at the first client that has the lock.
func (h *hint) warn() {
	for _, m := range h.clients {
		if m.WarnOfOwnClient(h.Waiting) {
			return
		}
	}
}

// end undoes begin when the call ends, except for the timer.
func (w *Wait) end() {
	if w.counted {
		w.counted = false
		w.client.Waiting.Add(-1)
	}
}

// Waited reports whether the call has paused for the lock.
func (w *Wait) Waited() bool { return w.hint != nil }

func (w *Wait) stopHint() {
	if w.hint != nil {
		w.hint.Stop()
	}
}

// Others returns how many other calls of the client wait.
func (w *Wait) Others() int64 {
	n := w.client.Waiting.Load()
	if w.counted {
		n--
	}
	return n
}

// noteServer notes whether the last attempt has found a server that it can use.
// A lock on several servers notes each of them.
func (w *Wait) noteServer(err error) {
	switch {
	case w.Nodes != nil:
		w.Nodes.NoteServers(err)
	case isUnserved(err):
		w.client.Outages.Failed(&w.Outage, w.address(err), w.Others()+1, err)
	default:
		w.noteAnswer()
	}
}

func (w *Wait) noteAnswer() {
	w.client.Outages.Answered(&w.Outage, func() string { return w.address(nil) })
}

// address returns the address of the server at which an attempt has ended with
// err.
func (w *Wait) address(err error) string {
	return driver.AddressOf(w.client.Driver, w.client.RedisKey(w.Key), err)
}

// isUnserved reports whether an attempt has failed because of its server, or on
// the way there.
func isUnserved(err error) bool {
	return !errors.Is(err, errs.ErrLockAcquiredByOthers) && (driver.IsTransient(err) || errors.Is(err, errs.ErrReplicas))
}

// endOutage ends the call's part in an outage.
func (w *Wait) endOutage(err error) {
	switch {
	case w.Nodes != nil:
		w.Nodes.EndOutages(err)
	case err != nil:
		w.client.Outages.End(&w.Outage, w.Others())
	case w.Block:
		w.noteAnswer()
	}
}

// explainOwn adds to the error of a call that may wait that its own client has
// the lock. A short wait may end before its first pause.
func (w *Wait) explainOwn(err error) error {
	if err == nil || !w.Block {
		return err
	}
	h := w.hint
	if h == nil {
		h = w.newHint(w.client.Outages.Since(&w.Outage))
	}
	for _, m := range h.clients {
		if explained := m.Explain(err, h.Waiting); explained != err { //nolint:errorlint // whether it was changed
			return explained
		}
	}
	return err
}
