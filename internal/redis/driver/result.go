package driver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// Result is the result of one command. There are three cases:
//
//   - not sent: nothing happened at the server;
//   - answered, by a value or a known error line: no copy is under way any
//     more;
//   - unanswered, by a timeout, a broken connection, a caller that left or an
//     unknown error line: the command may be executed now, later or never.
//
// A line is known if Redis or one of our scripts sends it. A proxy may send
// another one after the command was executed.
type Result struct {
	Reply     any
	Err       error
	Sent      time.Time // right before it was written; zero if it never was
	Answered  bool
	Resent    bool  // an earlier copy was sent, and was not answered
	Followed  bool  // in a batch: it followed a redirect, and has waited for its replicas
	Abandoned *Late // the call that its caller left; it still waits for the answer
}

// Late is a command whose answer may still come, although its caller has left.
type Late struct{ answered atomic.Bool }

// Answer notes that the answer has come.
func (l *Late) Answer() { l.answered.Store(true) }

// Answered reports whether the answer has come after all.
func (l *Late) Answered() bool { return l.answered.Load() }

// IsKnown reports whether the error is an answer that Redis or one of our
// scripts sends. Something in between may send another line after the command
// was executed.
func IsKnown(err error) bool {
	line, ok := ErrorLine(err)
	return ok && classOfLine(line) != unknown || errors.Is(err, errs.ErrReplicas)
}

// ErrorLine returns the server's error line in err, and reports whether there
// is one. A nil err is returned early, because the variable for errors.As is on
// the heap.
func ErrorLine(err error) (redis.Error, bool) {
	if err == nil {
		return "", false
	}
	var line redis.Error
	ok := errors.As(err, &line)
	return line, ok
}

// IsAnswer reports whether a server has answered with this error.
func IsAnswer(err error) bool {
	_, ok := ErrorLine(err)
	return ok
}

// Unanswered reports whether the request was sent and not answered. It may be
// executed now, later or never.
func (o Result) Unanswered() bool { return !o.Sent.IsZero() && !o.Answered }

// IsMissing reports whether the request was sent and no reply was read, not
// even an unknown line.
func (o Result) IsMissing() bool { return o.Unanswered() && !IsAnswer(o.Err) }

// Unconnected reports whether the request was not sent because connecting took
// too long.
func (o Result) Unconnected() bool {
	return o.Sent.IsZero() && IsTimeout(o.Err) && !errors.As(o.Err, new(unroutedError))
}

// Broke reports whether the connection broke under the command. Another
// connection may work.
func (o Result) Broke() bool {
	return o.Unanswered() && o.Abandoned == nil && !IsTimeout(o.Err) && IsNetwork(o.Err)
}

// IsTimeout reports whether an error is a timeout.
func IsTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// ErrAbandoned is the error of a call whose caller left when its context was
// cancelled.
var ErrAbandoned = errors.New("caller left")

// ContextErr replaces the error of an abandoned call by the reason why its
// context ended.
func ContextErr(ctx context.Context, err error) error {
	if errors.Is(err, ErrAbandoned) {
		return errs.EndOf(ctx, nil)
	}
	return err
}
