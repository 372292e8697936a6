package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lease"
)

// Observer is a set of hooks that are called as locks are used, for metrics,
// traces and audits. It is to locks what [net/http/httptrace.ClientTrace] is to
// a request. Any hook may be nil.
//
// A hook runs when the event happens, on the goroutine of a caller or of the
// Client. Several hooks may run concurrently. A hook must return quickly,
// because it delays its lock, or the renewals of all locks. It must neither
// panic nor call the Client or its locks. It may call methods of a Hold that
// send nothing, such as its Err.
type Observer struct {
	// LockStart is called when an acquiring call begins: Lock, TryLock, Acquire
	// or Do of any kind of lock, or of a [Locker], and [Client.Resume]. ctx is
	// the call's.
	LockStart func(ctx context.Context, e LockStart)

	// LockDone is called when such a call has got the lock, or has failed. It
	// is called once for each LockStart. ctx is the call's.
	LockDone func(ctx context.Context, e LockDone)

	// HoldDone is called once for each LockDone without an error, and after
	// it. It is called when Unlock or [Client.Detach] has ended the hold,
	// or immediately when the hold was lost before that. ctx has the values
	// of the one that the lock was acquired with, but is not cancelled with
	// it.
	HoldDone func(ctx context.Context, e HoldDone)

	// RenewDone is called after each attempt to renew a lease that is still
	// held by then, and after each Extend that is sent. For several keys or
	// nodes it is called for each.
	// ctx has the values of the one that the oldest level of the hold was
	// acquired with. After an Extend it is the context of that call. On etcd it
	// has no values otherwise, because a lease is for all locks.
	RenewDone func(ctx context.Context, e RenewDone)
}

// LockStart describes an acquiring call that begins. Its Kind is that of the
// handle, and no [Kind], which is that of a key: a handle reads or writes.
type LockStart struct {
	Key   string // name of the lock; for a [MultiLock] all names, separated by commas
	Kind  string // "plain", "reentrant", "read", "write", "semaphore", "multi", "quorum" (a [RedLock]) or "etcd"
	Block bool   // the call waits if others hold the lock
}

// LockDone describes the end of an acquiring call.
type LockDone struct {
	LockStart

	Start time.Time // when the call began
	End   time.Time // when it got the lock, or failed
	Err   error     // as the call returns it; nil if it has the lock

	// Waited reports whether the call waited for the lock: it did not get it at
	// its first attempt. A call that makes one attempt never waits. A level of
	// a hold that the caller has needs no wait.
	Waited bool
}

// HoldDone describes the end of a hold, or of one level of a reentrant one.
type HoldDone struct {
	Key  string // as in [LockStart]
	Kind string // as in [LockStart]

	Start time.Time // when it was granted
	End   time.Time // when the hold ended here: at the beginning of Unlock, or when the loss was found
	// Err is nil after an Unlock or Detach that was confirmed. Otherwise it is
	// the error of that call, or the reason why the hold was lost before. Then
	// it matches [ErrLockLost] or [ErrClosed].
	Err error
}

// RenewDone describes an attempt to renew a lease.
//
// A Locker of etcd has one lease for all of its locks, so Key is empty there.
//
// Err is nil if the server has renewed the lease. If it matches [ErrLockLost],
// the lease is no longer ours. After any other error, the renewal is retried
// while the lease is held, but an Extend is not.
type RenewDone struct {
	Key  string // the key that is renewed
	Kind string // as in [LockStart]

	Start time.Time // when the request was sent; the same as End if none was
	End   time.Time // when the attempt ended
	Err   error     // nil, ErrLockLost, or why the attempt failed
}

// And returns an observer that calls the hooks of o and then those of other.
func (o Observer) And(other Observer) Observer {
	return Observer{
		LockStart: holds.InTurn(o.LockStart, other.LockStart),
		LockDone:  holds.InTurn(o.LockDone, other.LockDone),
		HoldDone:  holds.InTurn(o.HoldDone, other.HoldDone),
		RenewDone: holds.InTurn(o.RenewDone, other.RenewDone),
	}
}

// observer returns the observer of the client. It has no hooks if the lock was
// not made by its constructor.
func (b *base) observer() *Observer {
	if b.client == nil || b.client.config == nil {
		return &Observer{}
	}
	return &b.client.config.observer
}

func orEmpty(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// hooks returns the functions that the engine calls. They add the operation and
// the key to errors.
func (o *Observer) hooks() (h lease.Hooks) {
	if done := o.HoldDone; done != nil {
		h.HoldDone = func(ctx context.Context, e holds.End) {
			done(ctx, HoldDone{Key: e.Key, Kind: e.Kind, Start: e.Start, End: e.End, Err: wrap(e.Op, e.Key, e.Err)})
		}
	}
	if done := o.RenewDone; done != nil {
		h.RenewDone = func(ctx context.Context, e holds.End) {
			done(ctx, RenewDone{Key: e.Key, Kind: e.Kind, Start: e.Start, End: e.End, Err: wrap(e.Op, e.Key, e.Err)})
		}
	}
	return h
}

// Stats are figures about a client, for a metric that is read now and then.
type Stats struct {
	// Held is the number of locks that the client has now. Each key of a
	// [MultiLock] counts. A [RedLock] counts once in each client. The levels of
	// a reentrant lock count as one. Deliveries of tasks do not count.
	Held int
	// Waiting is the number of calls that wait for a lock now.
	Waiting int
	// Connections is the number of open connections to the server. For
	// [NewClientPool] it is that of the pool, without those beside it.
	Connections int
	// OldestHold is how long ago Redis granted the oldest of the held locks. It
	// is 0 if there is none.
	OldestHold time.Duration

	// These count from the start of the client. An Extend counts as a renewal.
	// A loss counts as Held does, but not by Close.
	Renewals      int64 // that the server has confirmed
	RenewalErrors int64 // without an answer, or refused
	Losses        int64 // locks that were lost before their Unlock
}

// Stats returns the figures of the client. It makes no request. Its cost is
// proportional to Held: about a millisecond for 10,000 locks.
func (c *Client) Stats() Stats {
	if c == nil || c.engine == nil {
		return Stats{}
	}
	m := c.engine
	s := Stats{
		Waiting: int(m.Waiting.Load()), Connections: m.Driver.Connections(),
		Renewals: m.Counts.Renewals.Load(), RenewalErrors: m.Counts.RenewalErrors.Load(), Losses: m.Losses.Load(),
	}
	var oldest time.Time
	for h := range m.Holding() {
		s.Held++
		if at := h.Granted(); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	if s.Held > 0 {
		s.OldestHold = time.Since(oldest)
	}
	return s
}
