package etcdlock

import (
	"cmp"
	"context"
	"errors"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

// wait is what one call waits for, and why its attempts have failed.
type wait struct {
	*server
	selfWait
	lines  *lines
	ctx    context.Context // the caller's
	block  bool
	line   *line  // where it waits; nil if it is fair or does not wait
	last   error  // the last reason seen
	pauses pauses // after errors of the server
	outage outageCall
}

// take reports whether w got the turn. It notes that w has waited for it.
func (w *wait) take(t turn) bool {
	if t.try() {
		return true
	}
	w.setHint()
	w.outage.pass() // the call that has the turn is the one that asks
	return t.take(w.ctx, w.life)
}

// enter waits for the turn. Calls get it in their order.
func (w *wait) enter() (*entry, error) {
	e := w.lines.join(w.name)
	if e.turn = w.take(e.line.turn); e.turn {
		return e, nil
	}
	w.note(relock.ErrLockAcquiredByOthers)
	e.leave()
	return nil, errLeft
}

// pause waits after an error. It reports whether the call goes on.
func (w *wait) pause(why error) bool {
	w.setHint()
	w.outage.failed(why)
	ctx, leave := both(w.ctx, w.life)
	defer leave()
	return sleep(ctx, w.pauses.next())
}

// note keeps the reason of a failed attempt. If the caller left or the lease
// ended, an earlier reason says more, and stays.
func (w *wait) note(err error) {
	switch {
	case errors.Is(err, errLeft):
	case w.last != nil && (errors.Is(err, errSession) || errors.Is(err, errLate)):
	default:
		w.last = err
	}
}

// reason returns why the wait ended without a grant.
func (w *wait) reason() error {
	switch {
	case w.life.Err() != nil:
		return w.closed()
	case w.ctx.Err() != nil:
		return errs.EndOf(w.ctx, cmp.Or(w.unreachable(), w.last))
	case w.last == nil:
		return errTimeout
	case !w.block && w.last == relock.ErrLockAcquiredByOthers: //nolint:errorlint // our own reason
		return errs.Refused
	}
	return w.last
}

// await waits for a notice of something after the revision at. It returns the
// revision that the next check must have reached. If a watch has failed, or was
// silent for long, it closes the watches and returns 0. The wait must then
// check without a notice.
func (w *wait) await(ctx context.Context, ws *watches, at int64) (rev int64, err error) {
	w.setHint()
	limited, cancel := context.WithTimeout(ctx, w.recheck())
	defer cancel()
	for {
		select {
		case n := <-ws.heard:
			if n.err == nil && n.rev <= at {
				continue
			}
			if n.err == nil {
				w.pauses = pauses{}
				return n.rev, nil
			}
			w.watchFailed(limited, ws, n)
		case <-limited.Done():
		case <-w.life.Done():
		}
		ws.close()
		switch {
		case w.life.Err() != nil:
			return 0, w.closed()
		case ctx.Err() != nil:
			return 0, errLeft
		}
		return 0, nil
	}
}

// watchFailed pauses before the watch is requested again.
func (w *wait) watchFailed(ctx context.Context, ws *watches, n notice) {
	w.logger.Debug("relock: watch failed", "key", w.name, "reason", n.err.Error())
	if isStaleToken(n.err) {
		ws.streams.leave(n.stream)
	}
	sleep(ctx, w.pauses.next())
}
