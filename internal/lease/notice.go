package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
)

// forced takes the message that a hold was ended: a hint, to look at the
// notice.
func (m *Manager) forced(hold, redisKey string) {
	for _, l := range m.allLeases() {
		if at, id := l.stored(); at == redisKey && id == hold {
			m.Tasks.Start(func() {
				if err := l.notice(); err != nil {
					l.lose(err)
				}
			})
		}
	}
}

// stored is where the lease is in Redis, and the id of its hold there; empty
// for one that is made of several.
func (l *Lease) stored() (redisKey, hold string) {
	if l.protocol == nil {
		return "", ""
	}
	return l.protocol.LockKey(), l.protocol.HoldID()
}

// noticeLimit is how long a holder that was refused may look for the reason.
const noticeLimit = 200 * time.Millisecond

// askNotice is the request for the notice; false for a kind that has none.
func (l *Lease) askNotice() (script.Call, bool) {
	redisKey, hold := l.stored()
	return script.Call{Script: script.Notice, Key: redisKey + script.NoticeSuffix}, hold != ""
}

// readNotice returns why somebody has ended the hold by force; nil when nobody
// has, or it cannot be known.
func (l *Lease) readNotice(o driver.Result) error {
	text, err := driver.String(o.Reply, o.Err)
	_, hold := l.stored()
	named, reason, ok := strings.Cut(text, " ")
	if err != nil || !ok || !slices.Contains(strings.Split(named, ","), hold) {
		return nil
	}
	return errs.Forced(reason)
}

// notice asks for the notice, and reads it.
func (l *Lease) notice() error {
	ask, ok := l.askNotice()
	if !ok {
		return nil
	}
	limit := l.client.reasonLimit
	o, _ := l.client.Eval(context.Background(), driver.Limits{Connect: limit, Answer: limit, End: time.Now().Add(limit)}, ask)
	return l.readNotice(o)
}

// refused ends a lease of which a request has found that it is not ours any
// more, as soon as it was asked whether somebody has ended it by force, and
// returns why.
func (l *Lease) refused() error {
	l.endWithin(l.client.reasonLimit)
	why := l.notice()
	if why == nil {
		why = errs.ErrLockLost
	}
	l.lose(why)
	return why
}
