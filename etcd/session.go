package etcdlock

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
)

// session is one lease in etcd, with the validity of all holds under it.
//
// The validity ends at until. That is the time before the request that set the
// lease's end, plus the TTL in the answer, less the drift. etcd cannot give the
// locks away before that. A timer enforces it without a request. A session that
// has ended stays ended.
type session struct {
	sessions  *sessions
	id        clientv3.LeaseID
	ttl       time.Duration   // as granted
	period    time.Duration   // between renewals
	ctx       context.Context // cancelled when the session ends
	end       context.CancelCauseFunc
	renewing  turn
	keepAlive keepAlive // of the call that has the turn

	// Guarded by sessions.mu.
	until     time.Time
	renewed   time.Time // when the last renewal that was answered was sent
	failed    error     // why the last renewal failed; nil if it did not
	over      error     // why it ended; nil while it is live
	timer     *time.Timer
	closing   bool // takes no more claims: it was made for one hold, is worn out or spare
	users     int  // claims neither granted nor abandoned yet, and removals of keys
	grants    map[*grant]struct{}
	cancelled []cancelled
}

// cancelled is a key that prevents late copies of a request from making a hold.
type cancelled struct {
	key string
	at  time.Time
}

const (
	// cancelStay is how long such a key stays. By the defaults of Linux, TCP
	// gives up on unacknowledged data after about a quarter of an hour.
	cancelStay = 20 * time.Minute

	// forgetAtOnce is how many such keys one request deletes. By default etcd
	// allows 128 operations a transaction.
	forgetAtOnce = 100
)

// drift returns how much earlier than the lease its validity ends. It allows
// for clocks of different speeds and for late timers.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// expire is called by the timer. It ends the session, unless the validity was
// extended meanwhile.
func (s *session) expire() {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if s.checkLocked() == nil {
		s.timer.Reset(time.Until(s.until))
	}
}

// check ends the session if it is no longer valid by the clocks, ahead of the
// timer. It returns why the session has ended, or nil.
func (s *session) check() error {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return s.checkLocked()
}

func (s *session) checkLocked() error {
	if s.over == nil {
		s.sessions.checkSuspendLocked()
	}
	if s.over == nil && time.Until(s.until) <= 0 {
		s.loseLocked(errs.NotRenewed(s.renewed, s.failed))
	}
	return s.over
}

// extendValidity extends the validity, and never shortens it. A request that
// was sent at sent has set the end of the lease. An answer that comes after the
// end of the validity revives nothing.
func (s *session) extendValidity(sent time.Time, ttl time.Duration) error {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if err := s.checkLocked(); err != nil {
		return err
	}
	s.renewed, s.failed = sent, nil
	if until := sent.Add(ttl - drift(ttl)); until.After(s.until) {
		s.until = until
		s.timer.Reset(time.Until(until))
	}
	return nil
}

// noteFailure notes why a renewal has failed, for the loss that may follow. The
// end of the session and that of the client end renewals too, and are no such
// reason.
func (s *session) noteFailure(why error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if s.over == nil && !errors.Is(why, relock.ErrClosed) {
		s.failed = why
	}
}

// lose ends the session and all holds under it.
func (s *session) lose(why error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	s.loseLocked(why)
}

func (s *session) loseLocked(why error) {
	if s.over != nil {
		return
	}
	s.overLocked(why)
	keys, astray := s.endGrantsLocked(why)
	if errors.Is(why, relock.ErrClosed) {
		return // Close revokes it
	}
	s.sessions.tasks.Start(func() {
		attributes := []any{"kind", kind, "holds", len(keys), "keys", holds.Named(keys), "reason", why.Error()}
		s.sessions.logger.Warn("relock: lease lost", attributes...)
		for _, r := range astray {
			r.clean()
		}
		s.sessions.revoke(s)
	})
}

// endGrantsLocked ends the grants under the session, and returns their names.
// It also returns the removals of keys that do not go with this lease. Such a
// key may be under another lease, or a late request may make it there.
func (s *session) endGrantsLocked(why error) (names []string, astray []*removal) {
	for g := range s.grants {
		names = append(names, g.name)
		g.endLocked(why)
		g.slot.leave(false) // the key goes with the lease at the server, later than here
		if g.also != nil || g.indeterminate && g.origin != s {
			astray = append(astray, g.removalLocked())
		}
	}
	return names, astray
}

// overLocked marks the session as ended.
func (s *session) overLocked(why error) {
	s.over = why
	s.timer.Stop()
	s.end(why)
}

// retireLocked ends a session that takes no more claims, once it has no grants
// and no other users.
func (s *session) retireLocked() {
	if !s.closing || s.over != nil || len(s.grants) > 0 || s.users > 0 {
		return
	}
	s.overLocked(relock.ErrNotHeld)
	s.sessions.tasks.Start(func() { s.sessions.revoke(s) })
}

// leaveLocked ends one use of the session.
func (s *session) leaveLocked() {
	s.users--
	s.retireLocked()
}

// hasRoomLocked reports whether the session takes one more claim.
func (s *session) hasRoomLocked() bool {
	return !s.closing && s.keysLocked() < maxKeys && s.checkLocked() == nil
}

// keysLocked returns how many keys the lease has, or may have.
func (s *session) keysLocked() int { return len(s.grants) + s.users + len(s.cancelled) }

// noteCancelled registers the key of a cancelled claim. A lease that they have
// filled takes no more claims: the server may be overloaded, and each renewal
// lists all keys. The lease is revoked after its last hold and claim, which
// deletes the keys.
func (s *session) noteCancelled(key string) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	s.cancelled = append(s.cancelled, cancelled{key, time.Now()})
	if s.keysLocked() >= maxKeys {
		s.closing = true
		s.retireLocked()
	}
}
