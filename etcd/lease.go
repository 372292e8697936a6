package etcdlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

// opening is a lease that is being granted, for all calls that wait for it.
type opening struct {
	done chan struct{}
	err  error
}

// join makes a claim one of the users of a session. It opens a session if none
// has room.
func (w *wait) join() (*session, error) {
	for {
		s, o := w.locker.enter()
		switch {
		case s != nil:
			return s, nil
		case o == nil:
			return nil, w.locker.closed()
		case !w.awaitAnswer(o.done): // Close ends the opening
			return nil, errLeft
		case o.err != nil:
			return nil, o.err
		}
	}
}

// enter makes a claim one of the users of a session with room. If there is
// none, it returns the opening of the next one. It returns neither if the
// Locker is closed.
func (l *Locker) enter() (*session, *opening) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.roomyLocked(); s != nil {
		s.users++
		return s, nil
	}
	if l.opening == nil {
		o := &opening{done: make(chan struct{})}
		if l.tasks.Start(func() { l.openFor(o) }) {
			l.opening = o
		}
	}
	return nil, l.opening
}

// openFor grants the lease that the calls wait for. It renews the lease until
// the session ends.
func (l *Locker) openFor(o *opening) {
	s, err := l.grantLease(l.life, l.config.ttl, false)
	l.mu.Lock()
	l.opening, o.err = nil, err
	l.mu.Unlock()
	close(o.done)
	if s != nil {
		l.tasks.Start(l.warnOfOldServers)
		s.keep()
	}
}

// grantLease requests a lease of ttl, rounded up to whole seconds.
func (l *Locker) grantLease(ctx context.Context, ttl time.Duration, private bool) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit())
	defer cancel()
	l.checkSuspend()
	sent := time.Now()
	resp, err := l.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	switch {
	case err != nil && l.life.Err() != nil:
		return nil, l.closed()
	case err != nil:
		return nil, l.explain(err) // if a lease was granted, it has no keys and expires
	}
	s, err := l.adopt(resp.ID, sent, time.Duration(resp.TTL)*time.Second, private)
	if err != nil {
		l.sendBack(resp.ID)
	}
	return s, err
}

// sendBack revokes a lease that was granted too late, because it may be a long
// one. It tries once, even after Close.
func (l *Locker) sendBack(id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), min(revokeLimit, l.limit()))
	defer cancel()
	if _, err := l.client.Revoke(ctx, id); err != nil {
		l.logger.Debug("relock: lease not revoked", "reason", l.explain(err).Error())
	}
}

// keep renews the lease once per period until the session ends.
func (s *session) keep() {
	pause := s.period
	defer s.hangUp()
	for sleep(s.ctx, pause) {
		sent := time.Now()
		if err := s.renew(s.ctx); err != nil {
			s.locker.logger.Debug("relock: renewal failed", "reason", err.Error())
			pause = min(s.ttl/10, 500*time.Millisecond)
			continue
		}
		s.audit(s.ctx)
		s.reportOld()
		s.forgetCancelled()
		s.endIfSpare()
		pause = max(0, s.period-time.Since(sent))
	}
}

// hangUp closes the stream of a session that has ended. An Extend may still be
// using it, but leaves its turn when the session ends.
func (s *session) hangUp() {
	s.renewing <- struct{}{}
	defer s.renewing.give()
	s.keepAlive.close()
}

// renewLimit returns the time limit of a renewal. It allows three attempts
// before the lease ends, even if the server does not answer the first. It is no
// longer than that of other requests.
func (s *session) renewLimit() time.Duration {
	return max(min(s.ttl/6, maxLimit), 100*time.Millisecond)
}

// renew renews the lease and extends its validity, or finds it lost. It takes
// no longer than ctx allows.
func (s *session) renew(ctx context.Context) error {
	if !s.renewing.take(ctx, s.ctx) {
		return errLeft
	}
	defer s.renewing.give()
	if err := s.check(); err != nil {
		return err
	}
	ctx, leave := both(ctx, s.ctx)
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, s.renewLimit())
	defer cancel()
	sent := time.Now()
	err := s.renewOnce(ctx, sent)
	s.reportRenewal(ctx, sent, err)
	return err
}

func (s *session) renewOnce(ctx context.Context, sent time.Time) error {
	ttl, err := s.keepAlive.renew(ctx, s.ctx, s.locker.client, s.id)
	switch {
	case err == nil:
		return s.extendValidity(sent, ttl)
	case isNoLease(err):
		s.lose(errs.Vanished)
		return s.check()
	}
	err = s.locker.explain(err)
	s.noteFailure(err)
	return err
}

// revokeLimit is how long Close waits for the server.
const revokeLimit = time.Second

// revoke revokes a lease that has ended here, so that nobody must wait for its
// end at the server. It tries until that end has come.
func (l *Locker) revoke(s *session) {
	var p pauses
	for end := time.Now().Add(s.ttl); l.life.Err() == nil; sleep(l.life, p.next()) {
		ctx, cancel := context.WithTimeout(l.life, l.limit())
		_, err := l.client.Revoke(ctx, s.id)
		cancel()
		if err == nil || isNoLease(err) || time.Now().After(end) {
			l.mu.Lock()
			delete(l.leases, s)
			l.mu.Unlock()
			return
		}
		l.logger.Debug("relock: lease not revoked", "reason", l.explain(err).Error())
	}
}

// revokeAll is revoke for Close. It revokes all leases together.
func (l *Locker) revokeAll(sessions []*session) error {
	if why := l.closed(); why == errClientClosed && len(sessions) > 0 { //nolint:errorlint // ours
		return fmt.Errorf("%w: %w", relock.ErrUnconfirmed, why)
	}
	limit := min(revokeLimit, l.limit())
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	failed := make([]error, len(sessions))
	var group sync.WaitGroup
	for i, s := range sessions {
		group.Go(func() { failed[i] = s.revokeIn(ctx, limit/3) })
	}
	group.Wait()
	for _, err := range failed {
		if err != nil {
			return fmt.Errorf("%w: %w", relock.ErrUnconfirmed, err)
		}
	}
	return nil
}

// revokeIn tries until ctx is cancelled. The first attempt takes at most try,
// because the next one may meet a member that answers. That one may take all
// the time that is left.
func (s *session) revokeIn(ctx context.Context, try time.Duration) error {
	var p pauses
	for {
		limited, cancel := context.WithTimeout(ctx, try)
		_, err := s.locker.client.Revoke(limited, s.id)
		cancel()
		try = revokeLimit
		if err == nil || isNoLease(err) {
			return nil
		}
		if err = s.locker.explain(err); !relock.IsRetryableErr(err) || !sleep(ctx, p.next()) {
			return err
		}
	}
}
