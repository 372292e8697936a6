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

// forced handles the message that a hold was ended. The message is only a hint
// to read the notice.
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

// stored returns the key of the lease in Redis, and the id of its hold there.
// Both are empty for the lease of a group.
func (l *Lease) stored() (redisKey, hold string) {
	if l.protocol == nil {
		return "", ""
	}
	return l.protocol.LockKey(), l.protocol.HoldID()
}

// noticeLimit is how long a refused holder may take to read the reason.
const noticeLimit = 200 * time.Millisecond

// askNotice returns the request for the notice, or false for a kind of lock
// that has none.
func (l *Lease) askNotice() (script.Call, bool) {
	redisKey, hold := l.stored()
	return script.Call{Script: script.Notice, Key: redisKey + script.NoticeSuffix}, hold != ""
}

// readNotice returns the error of a hold that was ended by force, with the
// reason. It returns nil if it was not, or if that is unknown.
func (l *Lease) readNotice(o driver.Result) error {
	text, err := driver.String(o.Reply, o.Err)
	_, hold := l.stored()
	named, reason, ok := strings.Cut(text, " ")
	if err != nil || !ok || !slices.Contains(strings.Split(named, ","), hold) {
		return nil
	}
	return errs.Forced(reason)
}

// notice requests the notice and reads it.
func (l *Lease) notice() error {
	ask, ok := l.askNotice()
	if !ok {
		return nil
	}
	limit := l.client.reasonLimit
	o, _ := l.client.Eval(context.Background(), driver.Limits{Connect: limit, Answer: limit, End: time.Now().Add(limit)}, ask)
	return l.readNotice(o)
}

// refused ends a lease after a request has found that it is no longer ours, and
// returns why. It reads the notice first, because the hold may have been ended
// by force.
func (l *Lease) refused() error {
	l.endWithin(l.client.reasonLimit)
	why := l.notice()
	if why == nil {
		why = errs.Vanished
	}
	l.lose(why)
	return why
}
