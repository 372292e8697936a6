package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

// removal deletes a key of this Locker. It may be sent any number of times,
// because its comparison names this hold. No other hold ever has its name or
// its revision.
type removal struct {
	place
	all   *sessions
	entry *entry // of an abandoned claim; nil for a hold
	owned clientv3.Cmp
	// The key may be under the lease of any of these. Once all of them have
	// ended, it goes with their leases.
	sessions   []*session
	origin     *session // of the requests that make the key
	cancel     string   // key that prevents late requests; "" if all were answered
	found      bool     // a copy sent by deleteAlone has found the key
	deleted    bool     // the key is gone, but late requests are not prevented yet
	unanswered bool     // a copy may have been executed, but no answer said so
}

// newRemovalLocked returns a removal, which keeps the sessions until it is
// finished.
func (all *sessions) newRemovalLocked(p place, origin *session, sessions ...*session) *removal {
	for _, under := range sessions {
		under.users++
	}
	return &removal{place: p, all: all, origin: origin, sessions: sessions}
}

// send sends one copy of the removal, with the values of ctx. It reports
// whether the key was there.
func (r *removal) send(ctx context.Context, limit time.Duration) (found bool, err error) {
	all, began := r.all, time.Now()
	limited, cancel := all.detached(ctx, limit)
	defer cancel()
	then, otherwise := []clientv3.Op{clientv3.OpDelete(r.key)}, []clientv3.Op(nil)
	if r.cancel != "" {
		put := clientv3.OpPut(r.cancel, "", clientv3.WithLease(r.origin.id))
		// If the key is gone, a late request may have made it again.
		again := clientv3.OpTxn([]clientv3.Cmp{r.byValue()}, []clientv3.Op{clientv3.OpDelete(r.key)}, nil)
		then, otherwise = append(then, put), append(otherwise, again, put)
	}
	resp, err := all.client.Txn(limited).If(r.owned).Then(then...).Else(otherwise...).Commit()
	all.pace.note(began, limit, err)
	switch {
	case err == nil:
		if r.cancel != "" {
			r.origin.noteCancelled(r.cancel)
		}
		return resp.Succeeded, nil
	case isNoLease(err) && r.cancel != "": // without the lease, late requests make no key either
		r.cancel = ""
		r.origin.lose(errs.Vanished)
		return r.send(ctx, limit-time.Since(began))
	}
	r.unanswered = r.unanswered || perhapsExecuted(err)
	if isNoSpace(err) && r.cancel != "" {
		r.deleteAlone(limited)
	}
	return false, all.explainOf(r.name, err)
}

// deleteAlone frees the lock while etcd has no space for the cancel key. That
// key is put later. Until then etcd has no space for late requests either.
func (r *removal) deleteAlone(ctx context.Context) {
	resp, err := r.all.client.Txn(ctx).If(r.owned).Then(clientv3.OpDelete(r.key)).Commit()
	if err == nil {
		r.deleted, r.found = true, r.found || resp.Succeeded
		// By value, which also finds a key that a late request has made again.
		r.owned = r.byValue()
	}
}

// isMoot reports whether the key goes with its leases.
func (r *removal) isMoot() bool {
	return r.all.life.Err() != nil || !slices.ContainsFunc(r.sessions, func(s *session) bool { return s.check() == nil })
}

// isDone reports whether nothing is left to send. Then the key goes with its
// leases. No late request makes it again, because the lease of those requests
// has also ended.
func (r *removal) isDone() bool {
	return r.isMoot() && (r.cancel == "" || r.all.life.Err() != nil || r.origin.check() != nil)
}

// finish ends what existed only for the key. If removed is true, a request was
// answered. Then the key is gone, and late copies of other requests cannot make
// it again.
func (r *removal) finish(removed bool) {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	r.slot.leave(removed)
	r.entry.leave()
	for _, s := range r.sessions {
		s.leaveLocked()
	}
}

// clean sends the removal in the background until it is answered.
func (r *removal) clean() {
	r.all.tasks.Start(func() {
		var p pauses
		for !r.isDone() {
			if _, err := r.send(r.all.life, r.all.limit()); err == nil {
				r.finish(true)
				return
			}
			sleep(r.all.life, p.next())
		}
		r.finish(false)
	})
}

// release deletes the key of a grant that was unlocked. It tries for as long as
// one request may take. Then it goes on in the background.
func (r *removal) release(ctx context.Context) error {
	all, limit := r.all, r.all.limit()
	end := time.Now().Add(limit)
	var p pauses
	for {
		found, err := r.send(ctx, min(all.pace.try(limit), time.Until(end)))
		if err == nil {
			defer r.finish(true) // deferred: it may end the session, which verdict checks
			return r.verdict(found)
		}
		if r.deleted {
			defer r.clean()
			return r.verdict(r.found)
		}
		pause := p.next()
		if errors.Is(err, relock.ErrDenied) || time.Until(end) < pause || !sleep(all.life, pause) {
			return r.giveUp(err)
		}
	}
}

// verdict returns what an answer means for Unlock. A copy may find nothing
// because an earlier, unanswered copy did the work. That is success, unless the
// validity has ended since: then nobody knows.
func (r *removal) verdict(found bool) error {
	switch {
	case found, r.unanswered && !r.isMoot():
		return nil
	case r.all.life.Err() != nil:
		return r.all.closed()
	case r.unanswered:
		return errs.Join(errs.ErrUnconfirmed, errs.ErrAnswerLost)
	}
	return errs.NotHeld(errs.Vanished)
}

// giveUp ends an Unlock that was not answered.
func (r *removal) giveUp(err error) error {
	if r.all.life.Err() != nil {
		r.finish(false)
		return r.all.closed() // the key goes with its lease
	}
	r.clean()
	if errors.Is(err, relock.ErrClosed) {
		// The error says that the caller's client is closed. If it is not, the
		// removal above still deletes the key.
		return err
	}
	r.all.logger.Warn("relock: release not confirmed", "key", r.name, "kind", kind, "reason", err.Error())
	return fmt.Errorf("%w: %w", relock.ErrUnconfirmed, err)
}
