package relock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// wait is one call that acquires: attempts, and the pauses between them when it may wait.
type wait struct {
	client   *Client
	settings *lockSettings
	block    bool
	caller   context.Context
	ctx      context.Context // the caller's, cut by the block timeout
	cancel   context.CancelFunc

	queued *queued       // the call's place in the queue; nil for one that does not wait
	last   error         // the last reason seen
	pause  time.Duration // after a server's error
}

func (c *Client) newWait(ctx context.Context, s *lockSettings, block bool) *wait {
	w := &wait{client: c, settings: s, block: block, caller: ctx, ctx: ctx, cancel: func() {}}
	if block && s.blockTimeout > 0 {
		w.ctx, w.cancel = context.WithTimeout(ctx, s.blockTimeout)
	}
	return w
}

// acquire makes attempts until one is granted, one fails for good, or the wait ends.
func (w *wait) acquire(attempt func(context.Context) (*level, error)) (*level, error) {
	for {
		h, err := attempt(w.ctx)
		if err == nil {
			return h, nil
		}
		w.note(err)
		if !w.block || !IsRetryableErr(err) || !w.sleep(err) {
			return nil, w.reason()
		}
	}
}

// note keeps the reason of an attempt that failed. That a caller left, or an answer came too late, says less
// than what was seen before.
func (w *wait) note(err error) {
	if errors.Is(err, errLeft) || (w.last != nil && errors.Is(err, errLate)) {
		return
	}
	w.last = err
}

// maxPause is how far pauses grow while the server answers with errors or not at all.
const maxPause = time.Second

// sleep pauses before the next attempt, after one that failed with err: until the call is woken when it is in the
// queue, else for a while, never less than the poll interval. It returns false when the wait is over.
func (w *wait) sleep(err error) bool {
	var wake <-chan struct{}
	var due <-chan time.Time
	if w.queued != nil {
		wake = w.queued.wake
	}
	if w.queued == nil || !w.queued.known || !errors.Is(err, ErrLockAcquiredByOthers) {
		timer := time.NewTimer(w.nextPause(err))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-wake:
		return true
	case <-due:
		return true
	case <-w.ctx.Done():
	case <-w.client.life.Done():
	}
	if w.queued != nil {
		if err := w.queued.trouble(); err != nil {
			w.note(err)
		}
	}
	return false
}

// nextPause grows while the server answers with errors or not at all.
func (w *wait) nextPause(err error) time.Duration {
	poll := w.settings.poll
	if errors.Is(err, ErrLockAcquiredByOthers) {
		w.pause = poll
	} else {
		w.pause = max(poll, min(2*w.pause, maxPause))
	}
	return w.pause + rand.N(w.pause/5+1)
}

// reason is why the wait ended without a grant.
func (w *wait) reason() error {
	switch {
	case w.client.life.Err() != nil:
		return ErrClosed
	case w.caller.Err() != nil:
		return endOf(w.caller, w.last)
	case w.last == nil:
		return errTimeout
	}
	return w.last
}

// errLate is an acquire that was granted after the lease that it grants had ended.
var errLate = both(errors.New("the grant came after its lease had ended"), errTimeout)

// endOf is the error of a call whose context has ended: it matches ctx.Err(), its cause, and the last reason
// seen.
func endOf(ctx context.Context, last error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = both(err, cause)
	}
	if last != nil && !errors.Is(err, last) {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// ended turns the error of a call whose caller left into the end of its context.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, errLeft) {
		return endOf(ctx, nil)
	}
	return err
}
