package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Forced handles the message that a hold was ended. The message is only a hint
// to read the notice.
func (m *Manager) Forced(ended, redisKey string) {
	for _, l := range m.leasesOf(redisKey) {
		if l.isNamed(ended) {
			m.Tasks.Start(func() {
				if err := l.notice(); err != nil {
					l.lose(err)
				}
			})
		}
	}
}

// isNamed reports whether a notice means this lease. It names the hold, or the
// waiter if that has not claimed its grant by message. A waiter whose grant was
// ended may take the lock later as a hold of the same id, but then not by that
// grant.
func (l *Lease) isNamed(ended string) bool {
	if ended == l.protocol.HoldID() {
		return true
	}
	c := l.unsettled()
	return c != nil && c.Reservation == lockspec.Reservation(ended)
}

// askNotice returns the request for the notice, or false for a kind of lock
// that has none.
func (l *Lease) askNotice() (script.Call, bool) {
	ask := script.Call{Script: script.Notice, Key: l.protocol.LockKey() + script.NoticeSuffix}
	return ask, l.protocol.HoldID() != ""
}

// readNotice returns the error of a hold that was ended by force, with the
// reason. It returns nil if it was not, or if that is unknown.
func (l *Lease) readNotice(o driver.Result) error {
	text, err := driver.String(o.Reply, o.Err)
	named, reason, ok := strings.Cut(text, " ")
	if err != nil || !ok || !slices.ContainsFunc(strings.Split(named, ","), l.isNamed) {
		return nil
	}
	return errs.Forced(reason)
}

// notOurs ends a lease that the server has refused, and reports whether to ask
// for the reason first: the hold may have been ended by force. It ends after
// the limit for that, if no answer comes.
func (l *Lease) notOurs() (again bool) {
	if _, ok := l.askNotice(); ok {
		l.task.stage = asks
		l.endWithin(l.client.Limits.Notice)
		return true
	}
	_ = l.loseRefused(nil)
	return false
}

// loseRefused ends a lease that is no longer ours, and returns why. Without a
// reason, the server has just lost it.
func (l *Lease) loseRefused(why error) error {
	if why == nil {
		why = errs.Vanished
	}
	l.lose(why)
	return why
}

// notice requests the notice and reads it.
func (l *Lease) notice() error {
	ask, ok := l.askNotice()
	if !ok {
		return nil
	}
	limit := l.client.Limits.Notice
	o, _ := l.client.Eval(context.Background(), driver.Limits{Connect: limit, Answer: limit, End: time.Now().Add(limit)}, ask)
	return l.readNotice(o)
}

// refused ends a lease after a request has found that it is no longer ours, and
// returns why. It reads the notice first, because the hold may have been ended
// by force.
func (l *Lease) refused() error {
	l.endWithin(l.client.Limits.Notice)
	return l.loseRefused(l.notice())
}
