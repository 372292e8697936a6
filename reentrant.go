package relock

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lockspec"
)

// ReentrantLock is a lock that its owner can take again: one hash in Redis with the owner's count.
//
// The owner is, in this order: the hold that ctx carries, [ContextWithOwner], [WithOwner], the goroutine. The
// hold belongs to the owner, not to the object: packages of one program that each make their own object of
// the same name and client share it. It ends with the Unlock of the outermost level; a level that is unlocked
// neither frees nor shortens what is around it.
//
// A Lock inside a hold that was lost returns [ErrLockLost] until the hold's
// outermost Unlock.
type ReentrantLock struct {
	base
}

// NewReentrantLock returns the reentrant lock of this name on client. It is cheap, does no I/O and needs no
// closing. Names are 1 to 1024 bytes and do not start with a closing brace.
//
// By default Lock makes one attempt, a hold is renewed until its outermost Unlock, and the goroutine is the
// owner.
func NewReentrantLock(key string, client *Client, opts ...LockOption) *ReentrantLock {
	l := &ReentrantLock{newBase(key, client, opts, lockspec.Reentrant)}
	l.use(acquire.Reentrant{Target: &l.target})
	return l
}

// HoldCount returns how many levels the caller holds, by this client: 0 when it holds none, or has lost them. It asks nobody,
// and waits for a call of the same owner that is under way, as long as ctx allows; 0 then, and for a lock that
// [ReentrantLock.Validate] finds fault with.
func (l *ReentrantLock) HoldCount(ctx context.Context) int {
	if l.ready(ctx) != nil {
		return 0
	}
	return acquire.Reentrant{Target: &l.target}.Depth(ctx)
}
