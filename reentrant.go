package relock

import (
	"context"

	"github.com/relock-go/relock/internal/kinds/reentrant"
	"github.com/relock-go/relock/internal/lockspec"
)

// ReentrantLock is a lock that its owner can acquire again. It is one hash in
// Redis with the owner's count.
//
// The owner is, in order of precedence: the hold that ctx carries,
// [ContextWithOwner], the goroutine. The hold belongs to the owner, not to the
// object. So packages of one program share it if each makes its own object with
// the same name and client. A goroutine may serve one request after another, as
// those of net/http do: a hold that outlives the call needs
// [ContextWithOwner], or a [RedisLock].
//
// The hold ends with the Unlock of the outermost level. The Unlock of an inner
// level neither frees nor shortens the levels around it.
//
// A Lock inside a hold that was lost returns [ErrLockLost] until the hold's
// outermost Unlock.
type ReentrantLock struct {
	base
}

// NewReentrantLock returns the reentrant lock with this name on client. It is
// cheap, does no I/O and needs no closing. Names are 1 to 1024 bytes, and do
// not start with a closing brace.
//
// By default Lock makes one attempt, a hold is renewed until its outermost
// Unlock, and the goroutine is the owner.
func NewReentrantLock(key string, client *Client, opts ...LockOption) *ReentrantLock {
	l := &ReentrantLock{newBase(key, client, opts, lockspec.Reentrant)}
	l.use(reentrant.New(&l.target))
	return l
}

// HoldCount returns how many levels the caller holds through this client. It
// returns 0 if the caller holds none, or has lost them. It makes no request. It
// waits for a call of the same owner in progress. It returns 0 if ctx is
// cancelled first, or if [ReentrantLock.Validate] returns an error.
func (l *ReentrantLock) HoldCount(ctx context.Context) int {
	if l.ready(ctx) != nil {
		return 0
	}
	return reentrant.New(&l.target).Depth(ctx)
}
