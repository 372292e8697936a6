package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lockspec"
)

// Detach ends the hold h in this process and leaves the lock held, so that
// another process can go on with it: see [Client.Resume]. It returns a token
// for that. The lock stays for d, or for the rest of a longer [WithMinHold],
// and is free afterwards. d is whole milliseconds, 10ms to 10 years.
//
// The context of h is cancelled with the cause [ErrDetached] before anything is
// sent. h is not renewed any more, and needs no Unlock. The fencing token goes
// with the lock, so work that goes on after Detach is not refused by a guard.
//
// h must be the only level of a [RedisLock], a [ReentrantLock] or a [Locker] of
// Redis. For any other hold the error is [ErrInvalid]. That error, and the
// error of a ctx that is cancelled at the call, leave h as it was. After any
// other error the hold has ended, and needs no Unlock either. With
// [ErrLockLost] it was lost before, with [ErrNotHeld] it was unlocked. With
// [ErrUnconfirmed] a request was refused or not answered, and the lock is
// released in the background.
//
// The token is enough to take the lock. Keep it as secret as a password.
func Detach(ctx context.Context, h Hold, d time.Duration) (token string, err error) {
	var m lockspec.Problems
	m.Check(ctx != nil, "context: is nil")
	m.CheckMillis("Detach", d)
	own, ok := h.(hold)
	m.Check(ok, "hold: is none of this package's locks on Redis")
	if err := m.Err(); err != nil {
		return "", wrap("detach", "", err)
	}
	detached, err := own.level.Detach(ctx, d)
	if err != nil {
		return "", wrap("detach", own.Key(), err)
	}
	return detached.Token(), nil
}

// Resume acquires the lock that [Detach] has left held, in this process or
// another one. It works once for each token. Afterwards, and when the time of
// the token is over, the error is [ErrLockLost]. So it is if the client has
// another server or [WithKeyPrefix] than the one that detached.
//
// The hold has the fencing token of the detached one, its mode, and the rest of
// its minimum hold. A reentrant lock gets the caller's owner, as in Lock. Its
// lease, label, maximum hold and replicas are those of opts, or else the
// defaults of the client. Other options are [ErrInvalid], as is a text that is
// no token. So is an owner that has another hold of this lock, which was lost
// and is not unlocked.
//
// If the server did not answer, or too few replicas did, the token may have
// been used. If it was, the lock is released in the background.
func (c *Client) Resume(ctx context.Context, token string, opts ...LockOption) (Hold, error) {
	from, err := lockspec.ReadToken(token)
	if err != nil {
		return nil, wrap("resume", "", err)
	}
	b := newBase(string(from.Key), c, opts, from.Kind())
	b.use(acquire.NewResume(&b.target, from))
	return b.hold(ctx, false)
}
