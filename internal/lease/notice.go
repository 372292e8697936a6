package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Notice returns the error of a hold that was ended by force, or nil if the
// notice names none of these.
func (c *client) Notice(ctx context.Context, limit driver.Limits, redisKey string, names ...string) error {
	o, _ := c.Eval(ctx, limit, noticeOf(redisKey, names))
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

// notice requests the notice and reads it.
func (l refusal) notice() error {
	names := l.names()
	if len(names) == 0 {
		return nil
	}
	limit := l.client.Limits.Notice
	limits := driver.Limits{Connect: limit, Answer: limit, End: time.Now().Add(limit)}
	return l.client.Notice(context.Background(), limits, l.protocol.LockKey(), names...)
}

// end ends a lease after the reply to a request has shown that it is no longer
// ours, and returns why. It reads the notice first, because the hold may have
// been ended by force.
func (l refusal) end(reply any) error {
	l.EndBy(time.Now().Add(l.client.Limits.Notice))
	return l.lose(l.notice(), reply == int64(script.Forced))
}
