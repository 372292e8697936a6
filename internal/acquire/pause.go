package acquire

import (
	"errors"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redis/driver"
)

// hint warns, after one lease, of a call that waits for its own client.
type hint struct {
	*time.Timer
	lease.Waiting

	clients []*lease.Manager // that may have the lock
	only    [1]*lease.Manager
}

// begin counts the call as waiting, until its end. The first time that it waits
// for a key, it sets the timer of the hint.
func (w *wait) begin() {
	if w.hint == nil || w.hint.Key != w.key {
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
func (w *wait) newHint(since time.Time) *hint {
	h := &hint{Waiting: lease.Waiting{Key: w.key, Owner: w.owner, Since: since, Kind: w.Settings.Kind}}
	if w.nodes != nil {
		h.clients = w.nodes.clients()
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
func (w *wait) end() {
	if w.counted {
		w.counted = false
		w.client.Waiting.Add(-1)
	}
}

// waited reports whether the call has paused for the lock.
func (w *wait) waited() bool { return w.hint != nil }

func (w *wait) stopHint() {
	if w.hint != nil {
		w.hint.Stop()
	}
}

// others returns how many other calls of the client wait.
func (w *wait) others() int64 {
	n := w.client.Waiting.Load()
	if w.counted {
		n--
	}
	return n
}

// noteServer notes whether the last attempt has found a server that it can use.
// A lock on several servers notes each of them.
func (w *wait) noteServer(err error) {
	switch {
	case w.nodes != nil:
		w.nodes.noteNodes(err)
	case isUnserved(err):
		w.client.Outages.Failed(&w.outage, w.address(err), w.others()+1, err)
	default:
		w.noteAnswer()
	}
}

func (w *wait) noteAnswer() {
	w.client.Outages.Answered(&w.outage, func() string { return w.address(nil) })
}

// address returns the address of the server at which an attempt has ended with
// err.
func (w *wait) address(err error) string {
	return driver.AddressOf(w.client.Driver, w.client.RedisKey(w.key), err)
}

// isUnserved reports whether an attempt has failed because of its server, or on
// the way there.
func isUnserved(err error) bool {
	return !errors.Is(err, errs.ErrLockAcquiredByOthers) && (driver.IsTransient(err) || errors.Is(err, errs.ErrReplicas))
}

// endOutage ends the call's part in an outage.
func (w *wait) endOutage(err error) {
	switch {
	case w.nodes != nil:
		w.nodes.endOutages(err)
	case err != nil:
		w.client.Outages.End(&w.outage, w.others())
	case w.block:
		w.noteAnswer()
	}
}

// explainOwn adds to the error of a call that may wait that its own client has
// the lock. A short wait may end before its first pause.
func (w *wait) explainOwn(err error) error {
	if err == nil || !w.block {
		return err
	}
	h := w.hint
	if h == nil {
		h = w.newHint(w.client.Outages.Since(&w.outage))
	}
	for _, m := range h.clients {
		if explained := m.Explain(err, h.Waiting); explained != err { //nolint:errorlint // whether it was changed
			return explained
		}
	}
	return err
}
