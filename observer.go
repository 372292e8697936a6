package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lease"
)

// Observer is a set of hooks that are told what locks do, for metrics, traces and audits, as those of
// [net/http/httptrace.ClientTrace] are told of a request. Any of them may be nil.
//
// A hook runs where the event happens, on the goroutine of a caller or on one of the Client, and several may run at once. It
// returns soon: what it does holds the lock up, or the renewals of all locks. It must neither panic nor call the Client or its
// locks; what a Hold says by itself, such as its Err, it may ask.
type Observer struct {
	// LockStart is called when a call that acquires begins: Lock, TryLock, Acquire or Do of any kind of lock, or of a
	// [Locker]. ctx is the call's.
	LockStart func(ctx context.Context, e LockStart)

	// LockDone is called when such a call has got the lock, or not. ctx is the call's. For each LockStart there is one.
	LockDone func(ctx context.Context, e LockDone)

	// HoldDone is called once for each LockDone without an error, and after it: when Unlock has ended the hold, or as soon
	// as it was lost before that. ctx has the values of the one that the lock was acquired with, but not its end.
	HoldDone func(ctx context.Context, e HoldDone)

	// RenewDone is called after each attempt to renew a lease that is still held then, and after each Extend that is sent; of several keys
	// or nodes, for each.
	RenewDone func(e RenewDone)
}

// LockStart is a call that begins.
type LockStart struct {
	Key   string // name of the lock; of a [MultiLock] those of all its keys, with commas between them
	Kind  string // "plain", "reentrant", "read", "write", "multi", "quorum" (a [RedLock]) or "etcd"
	Block bool   // it waits when others have the lock
}

// LockDone is the end of a call.
type LockDone struct {
	LockStart

	Start time.Time // of the call
	Err   error     // as the call returns it; nil: it has the lock
}

// HoldDone is the end of a hold, or of one level of a reentrant one.
type HoldDone struct {
	Key  string // as in [LockStart]
	Kind string // as in [LockStart]

	Start time.Time // when it was granted
	End   time.Time // when the hold ended here: at the beginning of Unlock, or when the loss was found
	// Err is nil after an Unlock that was confirmed. Else it is the error of the Unlock, or says why the hold was lost
	// before: it matches ErrLockLost, or ErrClosed.
	Err error
}

// RenewDone is an attempt to renew a lease.
type RenewDone struct {
	Key  string    // of the one key that is renewed; empty in etcd, where one lease is for all locks of a Locker
	Sent time.Time // when the request was sent; zero when none was
	Err  error     // nil: the server has set the lease anew. ErrLockLost: it is not ours any more. Others are followed by another attempt while it is held, but those of an Extend
}

// And returns an observer that tells o and then other.
func (o Observer) And(other Observer) Observer {
	return Observer{
		LockStart: inTurn(o.LockStart, other.LockStart),
		LockDone:  inTurn(o.LockDone, other.LockDone),
		HoldDone:  inTurn(o.HoldDone, other.HoldDone),
		RenewDone: bothRenewDone(o.RenewDone, other.RenewDone),
	}
}

func bothRenewDone(first, second func(RenewDone)) func(RenewDone) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(e RenewDone) {
		first(e)
		second(e)
	}
}

// inTurn is two hooks as one, nil when there is none.
func inTurn[E any](first, second func(context.Context, E)) func(context.Context, E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, e E) {
		first(ctx, e)
		second(ctx, e)
	}
}

// observer is that of the client; it has no hooks when the lock was not made by
// its constructor.
func (b *base) observer() *Observer {
	if b.client == nil || b.client.config == nil {
		return &Observer{}
	}
	return &b.client.config.observer
}

// orEmpty is a context that hooks may use, whatever the caller gave.
func orEmpty(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// hooks returns what the engine calls. The errors that users get say what was
// done, and to which key.
func (o *Observer) hooks() (h lease.Hooks) {
	if done := o.HoldDone; done != nil {
		h.HoldDone = func(ctx context.Context, e holds.End) {
			done(ctx, HoldDone{Key: e.Key, Kind: e.Kind, Start: e.Start, End: e.End, Err: wrap(e.Op, e.Key, e.Err)})
		}
	}
	if done := o.RenewDone; done != nil {
		h.RenewDone = func(key string, sent time.Time, err error) { done(RenewDone{key, sent, wrap("renew", key, err)}) }
	}
	return h
}
