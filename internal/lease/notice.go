package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Forced handles the message that a hold was ended. The message is only a hint
// to read the notice.
func (m *Manager) Forced(ended, redisKey string) {
	for _, held := range m.leasesOf(redisKey) {
		if l := (refusal{held}); l.isNamed(ended) {
			m.Tasks.Start(func() {
				if err := l.ask(); err != nil {
					l.Lose(err)
				}
			})
		}
	}
}

// refusal is a lease as far as the reason goes for which the server has refused
// it. The hold may have been ended by force, which a notice says.
type refusal struct{ *Lease }

// isNamed reports whether a notice means this lease. It names the hold, or the
// waiter if that has not claimed its grant by message.
func (l refusal) isNamed(ended string) bool {
	return ended == l.protocol.HoldID() || byMessage(l).isNamed(ended)
}

// next returns the request for the notice, or false for a kind of lock that has
// none.
func (l refusal) next() (script.Call, bool) {
	ask := script.Call{Script: script.Notice, Key: l.protocol.LockKey() + script.NoticeSuffix}
	return ask, l.protocol.HoldID() != ""
}

// handle is Handle for the notice.
func (l refusal) handle(o driver.Result) (time.Time, bool) {
	_ = l.lose(l.read(o))
	return time.Time{}, false
}

// read returns the error of a hold that was ended by force, with the reason. It
// returns nil if it was not, or if that is unknown.
func (l refusal) read(o driver.Result) error {
	text, err := driver.String(o.Reply, o.Err)
	named, reason, ok := strings.Cut(text, " ")
	if err != nil || !ok || !slices.ContainsFunc(strings.Split(named, ","), l.isNamed) {
		return nil
	}
	return errs.Forced(reason)
}

// NotOurs ends a lease that the server has refused, and reports whether to ask
// for the reason first: the hold may have been ended by force. It ends after
// the limit for that, if no answer comes.
func (l *Lease) NotOurs() (again bool) {
	r := refusal{l}
	if _, ok := r.next(); ok {
		l.task.stage = asks
		l.EndBy(time.Now().Add(l.client.Limits.Notice))
		return true
	}
	_ = r.lose(nil)
	return false
}

// lose ends a lease that is no longer ours, and returns why. Without a reason,
// the server has just lost it.
func (l refusal) lose(why error) error {
	if why == nil {
		why = errs.Vanished
	}
	l.Lose(why)
	return why
}

// ask requests the notice and reads it.
func (l refusal) ask() error {
	ask, ok := l.next()
	if !ok {
		return nil
	}
	limit := l.client.Limits.Notice
	o, _ := l.client.Eval(context.Background(), driver.Limits{Connect: limit, Answer: limit, End: time.Now().Add(limit)}, ask)
	return l.read(o)
}

// refused ends a lease after the reply to a request has said that it is no
// longer ours, and returns why. It reads the notice first, because the hold may
// have been ended by force.
func (l *Lease) refused(reply any) error {
	l.EndBy(time.Now().Add(l.client.Limits.Notice))
	r := refusal{l}
	why := r.ask()
	if why == nil && reply == int64(script.Forced) {
		why = errs.Forced("") // the notice is lost
	}
	return r.lose(why)
}
