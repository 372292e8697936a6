package lease

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// The life of a grant that is no lease, such as a delivery of a task: it is
// renewed from Begin until it is lost, or until End.

// Begin enters a grant in the manager's books, and has it renewed. The request
// for it was sent at sent. It fails if the client was closed, or if the grant
// has already ended.
func (r *Renewal) Begin(m *Manager, of Renewable, key string, sent time.Time, s *lockspec.Spec) error {
	r.setUp(m, of, key, sent, s)
	r.watched = s.Lease
	now, err := r.start(sent)
	if err != nil {
		return err
	}
	r.renewer().Add(&r.job, r.renewAt(sent))
	r.recheckNow()
	return r.checkAt(now)
}

// setUp sets what never changes, and the first validity.
func (r *Renewal) setUp(m *Manager, of Renewable, key string, sent time.Time, s *lockspec.Spec) {
	r.init(m, of, key, sent, s)
	r.grant, r.due = of, -1
	r.job.Init(of)
}

// start enters a grant in the manager's books, and sets its expiry timer. It
// fails if the client was closed. A grant that was requested before a suspend
// is lost; start returns the time of that check.
func (r *Renewal) start(requested time.Time) (now time.Time, err error) {
	if err := r.client.adopt(r); err != nil {
		return now, err
	}
	r.mu.Lock()
	if r.over == nil {
		r.client.expiry.watch(r)
	}
	r.mu.Unlock()
	now = time.Now()
	if r.client.monitor.suspendedSince(requested, now) {
		r.lose(errs.Suspended)
	}
	if r.client.isBeforeSwitch(requested) {
		r.recheck.Store(true)
	}
	return now, nil
}

// Err returns why the grant has ended, or nil. It decides by the clock, not by
// whether a timer has fired.
func (r *Renewal) Err() error {
	now := time.Now()
	r.client.CheckSuspended(now)
	return r.checkAt(now)
}

// StopRenewing lets the grant end by itself, unless End comes before.
func (r *Renewal) StopRenewing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = 0
}

// End ends the grant. It returns why the grant had ended before, or nil.
func (r *Renewal) End(why error) (earlier error) {
	_ = r.Err() // the clock decides, not whether a timer has fired
	r.mu.Lock()
	earlier = r.over
	follow := r.loseLocked(why)
	r.mu.Unlock()
	follow()
	return earlier
}

// Leave takes a grant that has ended from its worker, the expiry timers and the
// books. No renewal is sent after that.
func (r *Renewal) Leave() {
	r.renewer().Remove(&r.job)
	r.client.expiry.forget(r)
	r.client.forget(r)
}
