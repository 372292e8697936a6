package multilock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/kinds/plain"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/waitqueue"
)

// attempt is one call for a MultiLock. A call that waits has an entry in
// the queue of one key. Once the entry is granted, the call has that key as a
// plain lock. The next try for all keys takes the key over, or hands it off.
type attempt struct {
	lock *Lock
	wait *acquire.Wait

	at  int                // the key of the queue entry
	got *waitqueue.Granted // the grant of the entry; nil if there is none

	first string // value of the last try for all groups together; "" before it
	split bool   // the keys are in several groups

	way    way
	misses int // keys that the call was handed in vain since it last kept any
}

// maxMoves is how often one attempt may move to another held key before it
// pauses. Otherwise two calls could move forever, if each has what the other
// wants.
const maxMoves = 8

func (a *attempt) try(ctx context.Context) (*lease.Hold, error) {
	h, err := a.move(ctx)
	if !errors.Is(err, errs.ErrLockAcquiredByOthers) {
		a.releaseKept()
	}
	a.wait.Rest = a.rest()
	return h, err
}

// move tries for all keys. It moves from one busy key to the next until it has
// to wait for one.
func (a *attempt) move(ctx context.Context) (*lease.Hold, error) {
	var held error
	for n := 0; n < maxMoves || a.way.n > 0; n++ {
		a.expireKept()
		if err := a.enqueue(ctx); err != nil {
			a.wait.Key = a.lock.keys[a.at]
			return nil, a.of(a.at, err)
		}
		if a.got != nil {
			a.misses++ // in vain, unless this try gets all keys
		}
		h, busy, err := a.takeAll(ctx)
		a.wait.Key = a.lock.keys[busy]
		if !errors.Is(err, errs.ErrLockAcquiredByOthers) || !a.wait.Block {
			return h, err
		}
		held = err
		a.queueAt(busy)
	}
	a.leave()
	return nil, held
}

// enqueue makes an attempt for the key that the call waits for.
func (a *attempt) enqueue(ctx context.Context) error {
	if a.wait.Queued == nil {
		return nil
	}
	g, err := a.wait.Queued.Attempt(ctx)
	if err == nil {
		got := g // so that only a grant needs memory
		a.got = &got
	}
	return err
}

// body returns what a queue entry stores for a hold.
func (a *attempt) body(hold string) (value, info string) {
	return a.lock.Manager.Identity.Value(hold, &a.lock.entrySpec), ""
}

// queueAt makes the call wait for the n-th key.
func (a *attempt) queueAt(n int) {
	if a.wait.Queued != nil && a.at == n {
		return
	}
	a.leave()
	line := a.lock.Manager.Queue.Enter(a.lock.keys[n], a.lock.redisKeyOf(n))
	a.wait.Queued, a.at = waitqueue.NewEntry(line, &a.lock.entrySpec, false, a.body), n
}

// end releases all that the call still has when it ends.
func (a *attempt) end() {
	a.releaseKept()
	a.leave()
}

// leave cancels the queue entry.
func (a *attempt) leave() {
	if a.wait.Queued == nil {
		return
	}
	a.giveUp()
	a.wait.Queued.Leave()
	a.wait.Queued.Line.Exit()
	a.wait.Queued = nil
}

// giveUp releases the one key that the entry was granted.
func (a *attempt) giveUp() {
	if a.got == nil {
		return
	}
	s := &a.lock.entrySpec
	a.lock.Manager.Retrier.Retry(background.NewRelease(a.lock.keys[a.at],
		s.Expiry(), s.Lease, a.got.Indeterminate, a.got.Undo))
	a.got = nil
}

// takeAll requests all keys. If they were only kept, one by one, it requests
// them again for the hold. A call that does not wait requests them once more in
// order if it got some of them together: otherwise two calls could refuse each
// other again and again.
func (a *attempt) takeAll(ctx context.Context) (h *lease.Hold, busy int, err error) {
	keep := a.keep()
	for {
		value, err := a.newValue()
		if err != nil {
			return nil, 0, err
		}
		t := a.ask(ctx, value, keep)
		collided := a.hasCollided(value, t)
		if collided {
			a.releaseTaken(ctx, value, t)
		}
		a.follow(value, t, keep)
		switch {
		case collided:
		case t.err != nil:
			return nil, t.busy, t.err
		case t.kept == 0:
			h, err = a.grant(value, t)
			return h, 0, err
		}
		keep = 0
	}
}

// newValue draws the value of a try. No other try uses it: a released value is
// never requested again.
func (a *attempt) newValue() (string, error) {
	return a.lock.Manager.Identity.NewValue(&a.lock.part)
}

// follow keeps or releases what the call has after a try. It also releases what
// is indeterminate.
func (a *attempt) follow(value string, t *tried, keep time.Duration) {
	if a.got != nil && t.resolved && !a.got.Indeterminate.Exists() {
		a.got = nil // nothing of it is left
	}
	a.giveUp()
	a.updateKept(value, t, keep)
	if t.err == nil && t.kept == 0 {
		return // the leases handle their own release
	}
	l := a.lock
	for n := range l.keys {
		if t.taken[n] || t.indeterminate[n].Exists() {
			l.Manager.Retrier.Retry(l.cleanup(n, value, t.indeterminate[n]))
		}
	}
}

// of adds the n-th key to an error that is about one key.
func (a *attempt) of(n int, err error) error {
	switch key := a.lock.keys[n]; {
	case errors.Is(err, errs.ErrLockAcquiredByOthers):
		return errs.OfKey(err, errs.ErrLockAcquiredByOthers, key)
	case errors.Is(err, errs.ErrKeyConflict):
		return errs.OfKey(err, errs.ErrKeyConflict, key)
	}
	return err
}

// grant makes the hold from a lease for each key. The leases handle their own
// release from then on.
func (a *attempt) grant(value string, t *tried) (*lease.Hold, error) {
	l := a.lock
	p := lease.NewGroup(l.Manager, l.Key, l.keys, len(l.keys), &l.whole, l.failed)
	p.SetFence(slices.Max(t.fence))
	var late error
	for n, key := range l.keys {
		protocol := plain.ProtocolOf(l.redisKeyOf(n), value, l.part.MinHold > 0)
		one := &lease.Grant{
			Key: key, Protocol: protocol, Sent: t.sent[n], Settings: &l.part, Indeterminate: t.indeterminate[n],
		}
		if err := p.Add(a.wait.Caller, n, l.Manager, one); err != nil {
			late = err
		}
	}
	h, err := p.Grant(a.wait.Caller, t.start(), &l.whole)
	if late != nil {
		return nil, late // the others were released, since one is missing
	}
	return h, err
}

func (l *Lock) failed(n int, err error) error {
	return fmt.Errorf("key %s: %w", strconv.Quote(l.keys[n]), err)
}
