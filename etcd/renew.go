package etcdlock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

// renewLimit returns the time limit of a renewal. It allows three attempts
// before the lease ends, even if the server does not answer the first. A server
// that is far away has longer, until the next renewal is due, and two attempts.
// The limit is no longer than that of other requests.
func (s *session) renewLimit() time.Duration {
	far := min(s.sessions.pace.times(2), s.period)
	return max(min(max(s.ttl/6, far), s.sessions.limit()), 100*time.Millisecond)
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
	limit := s.renewLimit()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := time.Now()
	err := s.renewOnce(ctx, sent, limit)
	s.reportRenewal(ctx, sent, err)
	return err
}

func (s *session) renewOnce(ctx context.Context, sent time.Time, limit time.Duration) error {
	ttl, err := s.keepAlive.renew(ctx, s.ctx, s.sessions.client, s.id)
	s.sessions.pace.note(sent, limit, err)
	switch {
	case err == nil:
		return s.extendValidity(sent, ttl)
	case isNoLease(err):
		s.lose(errs.Vanished)
		return s.check()
	}
	err = s.sessions.explain(err)
	s.noteFailure(err)
	return err
}

// reportRenewal notifies the observer of an attempt to renew the lease. If the
// end of the session has cut the attempt, the error is why the session ended.
func (s *session) reportRenewal(ctx context.Context, sent time.Time, err error) {
	o := s.sessions.config.observer
	if o.RenewDone == nil {
		return
	}
	if over := s.check(); err != nil && over != nil && !errors.Is(err, over) {
		err = over
	}
	o.RenewDone(context.WithoutCancel(ctx), relock.RenewDone{Kind: kind, Start: sent, End: time.Now(), Err: err})
}
