package lease

import (
	"context"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Forced handles the message that a hold is to end by force. The message is
// only a hint to read the notice.
func (m *Manager) Forced(ended, redisKey string) {
	for _, held := range m.leasesOf(redisKey) {
		if l := (refusal{held}); slices.Contains(l.names(), ended) {
			m.Tasks.Start(func() {
				if err := l.ask(); err != nil {
					l.Lose(err)
				}
			})
		}
	}
}

// EndForced ends the holds of this client among those that it has itself ended
// by force.
func (m *Manager) EndForced(redisKey, reason string, names []string) {
	ended := map[string]bool{}
	for _, name := range names {
		ended[name] = true
	}
	for _, l := range m.leasesOf(redisKey) {
		if slices.ContainsFunc(refusal{l}.names(), func(name string) bool { return ended[name] }) {
			l.Lose(errs.Forced(reason))
		}
	}
}

// Notice returns the error of a hold that was ended by force, or nil if the
// notice names none of these.
func (m *Manager) Notice(ctx context.Context, limit driver.Limits, redisKey string, names ...string) error {
	o, _ := m.Eval(ctx, limit, noticeOf(redisKey, names))
	return readNotice(o)
}

func noticeOf(redisKey string, names []string) script.Call {
	ask := script.Call{Script: script.Notice, Key: redisKey + script.NoticeSuffix}
	for _, name := range names {
		ask.Args = append(ask.Args, name)
	}
	return ask
}

// readNotice returns the error of a hold that was ended by force, with the
// reason. It returns nil if it was not, or if that is unknown.
func readNotice(o driver.Result) error {
	reason, err := driver.String(o.Reply, o.Err)
	if err != nil {
		return nil
	}
	return errs.Forced(reason)
}

// refusal is a lease as far as the reason goes for which the server has refused
// it. The hold may have been ended by force, which a notice says.
type refusal struct{ *Lease }

// names returns what a notice calls this lease: its hold, and the waiter if
// that has not claimed its grant by message. A kind of lock that has no notice
// has no names.
func (l refusal) names() (all []string) {
	for _, name := range []string{l.protocol.HoldID(), byMessage(l).waiter()} {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

// next returns the request for the notice, or false for a kind of lock that has
// none.
func (l refusal) next() (script.Call, bool) {
	names := l.names()
	return noticeOf(l.protocol.LockKey(), names), len(names) > 0
}

// handle is Handle for the notice.
func (l refusal) handle(o driver.Result) (time.Time, bool) {
	_ = l.lose(readNotice(o), l.task.stage == asksMarked)
	return time.Time{}, false
}

// NotOurs ends a lease that the server has refused with this code, and reports
// whether to ask for the reason first: the hold may have been ended by force.
// It ends after the limit for that, if no answer comes.
func (l *Lease) NotOurs(code any) (again bool) {
	r, forced := refusal{l}, code == int64(script.Forced)
	if _, ok := r.next(); ok {
		l.task.stage = asks
		if forced {
			l.task.stage = asksMarked
		}
		l.EndBy(time.Now().Add(l.client.Limits.Notice))
		return true
	}
	_ = r.lose(nil, forced)
	return false
}

// lose ends a lease that is no longer ours, and returns why. Without a reason,
// the server has just lost it, unless it was marked: then the notice is lost.
func (l refusal) lose(why error, forced bool) error {
	switch {
	case why == nil && forced:
		why = errs.Forced("")
	case why == nil:
		why = errs.Vanished
	}
	l.Lose(why)
	return why
}

// ask requests the notice and reads it.
func (l refusal) ask() error {
	names := l.names()
	if len(names) == 0 {
		return nil
	}
	limit := l.client.Limits.Notice
	limits := driver.Limits{Connect: limit, Answer: limit, End: time.Now().Add(limit)}
	return l.client.Notice(context.Background(), limits, l.protocol.LockKey(), names...)
}

// refused ends a lease after the reply to a request has said that it is no
// longer ours, and returns why. It reads the notice first, because the hold may
// have been ended by force.
func (l *Lease) refused(reply any) error {
	l.EndBy(time.Now().Add(l.client.Limits.Notice))
	r := refusal{l}
	return r.lose(r.ask(), reply == int64(script.Forced))
}
