package acquire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/waitqueue"
	"github.com/relock-go/relock/utils"
)

// multiAttempt is one call for a MultiLock. One that waits has a place in the
// queue of one key. When that is granted the key is its own, as a plain lock;
// the try for all keys takes it over, or else hands it over.
type multiAttempt struct {
	lock *Multi
	wait *wait

	queued *waitqueue.Entry   // the place; nil when there is none
	at     int                // its key
	got    *waitqueue.Granted // what the place was granted; nil while it was not

	way    way
	misses int // keys that it was handed in vain since it last kept any
}

// maxMoves is how often one attempt may go on to another key that is held, before it pauses: two calls that each have
// what the other one wants do not go on for ever.
const maxMoves = 8

func (a *multiAttempt) try(ctx context.Context) (*lease.Hold, error) {
	h, err := a.move(ctx)
	if !errors.Is(err, errs.ErrLockAcquiredByOthers) {
		a.yield()
	}
	a.wait.rest = a.rest()
	return h, err
}

// move tries for all keys, and goes on from one busy key to the next until it
// has to wait for one.
func (a *multiAttempt) move(ctx context.Context) (*lease.Hold, error) {
	var held error
	for n := 0; n < maxMoves || a.way.n > 0; n++ {
		a.endWay()
		if err := a.takePlace(ctx); err != nil {
			return nil, a.of(a.at, err)
		}
		if a.got != nil {
			a.misses++ // unless it is of use
		}
		h, busy, err := a.takeAll(ctx)
		if !errors.Is(err, errs.ErrLockAcquiredByOthers) || !a.wait.block {
			return h, err
		}
		held = err
		a.queueAt(busy)
	}
	a.leave()
	return nil, held
}

// takePlace asks for the key that the call waits for.
func (a *multiAttempt) takePlace(ctx context.Context) error {
	if a.queued == nil {
		return nil
	}
	if _, err := a.queued.Attempt(ctx); err != nil {
		return err
	}
	g := a.queued.Granted()
	a.got = &g
	return nil
}

// body is what a place stores.
func (a *multiAttempt) body(hold string) (value, info string) {
	return a.lock.Manager.Identity.Value(hold, &a.lock.place), ""
}

// queueAt makes the call wait for the n-th key.
func (a *multiAttempt) queueAt(n int) {
	if a.queued != nil && a.at == n {
		return
	}
	a.leave()
	line := a.lock.Manager.Queue.Enter(a.lock.keys[n], a.lock.redisKeyOf(n))
	a.queued, a.at = waitqueue.NewEntry(line, &a.lock.place, false, a.body), n
	a.wait.queued = a.queued
}

// end gives up all that the call has when it ends.
func (a *multiAttempt) end() {
	a.yield()
	a.leave()
}

// leave gives the place up.
func (a *multiAttempt) leave() {
	if a.queued == nil {
		return
	}
	a.giveUp()
	a.queued.Leave()
	a.queued.Line.Exit()
	a.queued, a.wait.queued = nil, nil
}

// giveUp passes on the one key that the place was granted.
func (a *multiAttempt) giveUp() {
	if a.got == nil {
		return
	}
	s := &a.lock.place
	a.lock.Manager.Retrier.Retry(background.NewRelease(a.lock.keys[a.at], s.Expiry(), s.Lease, a.got.Doubt, a.got.Undo))
	a.got = nil
}

// takeAll asks for all keys: kept ones one by one again, now for the hold.
func (a *multiAttempt) takeAll(ctx context.Context) (h *lease.Hold, busy int, err error) {
	keep := a.keep()
	for {
		value, err := a.newValue()
		if err != nil {
			return nil, 0, err
		}
		t := a.ask(ctx, value, keep)
		a.follow(value, t, keep)
		switch {
		case t.err != nil:
			return nil, t.busy, t.err
		case t.kept == 0:
			h, err = a.grant(value, t)
			return h, 0, err
		}
		keep = 0
	}
}

// newValue draws the value of a try, which no other try uses: what is given
// back is not asked for again.
func (a *multiAttempt) newValue() (string, error) {
	id, err := utils.NewID()
	if err != nil {
		return "", err
	}
	return a.lock.Manager.Identity.Value(id, &a.lock.part), nil
}

// follow keeps or gives back what a try has left of the call, and cleans up
// after what is in doubt.
func (a *multiAttempt) follow(value string, t *tried, keep time.Duration) {
	if a.got != nil && t.settled && !a.got.Doubt.Exists() {
		a.got = nil // there is nothing of it any more
	}
	a.giveUp()
	a.keepWay(value, t, keep)
	if t.err == nil && t.kept == 0 {
		return // the leases see to it
	}
	l := a.lock
	for n := range l.keys {
		if n < t.taken || t.doubt[n].Exists() {
			l.Manager.Retrier.Retry(l.cleanup(n, value, t.doubt[n]))
		}
	}
}

// of says which key an error is about.
func (a *multiAttempt) of(n int, err error) error {
	if err == errs.ErrLockAcquiredByOthers || err == errs.ErrKeyConflict { //nolint:errorlint // our own sentinels, as they are
		return fmt.Errorf("%w: key %s", err, strconv.Quote(a.lock.keys[n]))
	}
	return err
}

// grant makes the hold: a lease for each key, which cleans up after itself from then on.
func (a *multiAttempt) grant(value string, t *tried) (*lease.Hold, error) {
	l := a.lock
	p := lease.NewGroup(l.Manager, l.Key, l.keys, len(l.keys), &l.whole, l.failed)
	p.SetFence(slices.Max(t.fence))
	var late error
	for n, key := range l.keys {
		protocol := plainProtocol{l.redisKeyOf(n), value, l.part.MinHold > 0}
		one := &lease.Grant{Key: key, Protocol: protocol, Sent: t.sent[n], Settings: &l.part, Doubt: t.doubt[n]}
		if err := p.Add(a.wait.Caller, n, l.Manager, one); err != nil {
			late = err
		}
	}
	h, err := p.Grant(a.wait.Caller, t.sent[0], &l.whole)
	if late != nil {
		return nil, late // the others were given back, since one is missing
	}
	return h, err
}

// failed says of which key err is.
func (l *Multi) failed(n int, err error) error {
	return fmt.Errorf("key %s: %w", strconv.Quote(l.keys[n]), err)
}
