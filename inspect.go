package relock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/relock-go/relock/internal/inspect"
	"github.com/relock-go/relock/internal/lockspec"
)

// State is the current state of a lock.
type State string

// The states of a lock. A lock is reserved while it is handed off to a waiter
// that has not taken it yet. It is kept after its Unlock for the rest of its
// minimum hold, see [WithMinHold]. A semaphore is held while anybody has a
// permit. Otherwise it is reserved if a permit is.
const (
	StateFree     State = "free"
	StateHeld     State = "held"
	StateReserved State = "reserved"
	StateKept     State = "kept"
)

// NoExpiry is the [Info.Remaining] of a key without an expiry, a negative
// duration. Such a key stays until it is deleted.
const NoExpiry time.Duration = -1

// Kind is the kind of lock that a key is. An [Observer] has other words: those
// of the handle that made the call, see [LockStart].
type Kind string

// The kinds of locks, as keys in Redis tell them apart. A key of a [MultiLock]
// and of a [RedLock], and one of a [Locker], is that of a plain lock.
const (
	KindPlain     Kind = "plain"
	KindReentrant Kind = "reentrant"
	KindReadWrite Kind = "read/write"
	KindSemaphore Kind = "semaphore"
)

// Info is the state of a lock in Redis.
type Info struct {
	Key   string
	State State
	Kind  Kind // empty if the lock is free
	Fair  bool
	// Holder is the exclusive holder. If the lock is kept, it is the last
	// holder. It is nil if there is none.
	Holder *Holder
	// Readers are the readers that hold a read/write lock, or the holders of a
	// semaphore. Of more than 128 readers, holders and kept permits, these are
	// some.
	Readers []Holder
	// Remaining is how long the lock stays without a renewal. It is 0 if the
	// lock is free, and [NoExpiry] if the key has no expiry. relock always sets
	// an expiry, but another program may remove it.
	Remaining time.Duration
	// Fence is the highest fencing token that a holder can have had so far. It
	// is 0 if there was none. An unfair [RedisLock] can be handed off within a
	// process. For that each of its grants sets up to 63 tokens aside, and
	// Fence is the last one.
	Fence int64
	// Waiting is the number of waiters in Redis. The goroutines of a process
	// that wait for an unfair lock count as one. Calls that wait for a
	// [RedLock] are not counted.
	Waiting int
	// Waiters are the first waiters in order of arrival, at most 128.
	Waiters []Waiter
	// Permits is the limit of the first waiter of a semaphore. It is 0 if
	// nobody waits for one.
	Permits int
}

// Holder describes the holder of a lock as the holder itself wrote it. Nothing
// in it is verified. If the lock was handed off within a process, it is the
// holder that took the lock from Redis.
type Holder struct {
	Client string // id of its Client, new for each
	Host   string
	PID    int
	Label  string    // see [WithLabel]
	Since  time.Time // by the holder's clock
	Owner  string    // of a reentrant or read/write lock: "goroutine 12", or the owner's name; otherwise empty
	Count  int       // levels; 1 for a plain lock
	// Forced reports that the hold is marked to end by force, see
	// [Client.ForceUnlock]. It ends when its client learns of that, or after
	// Remaining.
	Forced bool
}

// Waiter describes a waiter for a lock.
type Waiter struct {
	Client string        // id of its Client
	Age    time.Duration // since it arrived, by the server's clock
	Kind   Kind
	Fair   bool
}

// Inspect returns the state of the lock with this name in Redis: its holders,
// since when, for how long without a renewal, and its waiters. Of a [RedLock]
// it shows the node's part. The result may be stale by the time it returns.
//
// A lock that nobody holds is [StateFree], which is no error. Inspect returns
// [ErrKeyConflict] if the key is something else.
func (c *Client) Inspect(ctx context.Context, key string) (Info, error) {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	if err := c.ready(ctx, m.Err()); err != nil {
		return Info{}, wrap("inspect", key, err)
	}
	info, err := c.locks().State(ctx, key)
	return readInfo(info), wrap("inspect", key, err)
}

// locks are the locks at the servers of the client.
func (c *Client) locks() inspect.Locks {
	return inspect.Locks{
		Driver: c.engine.Driver, Prefix: c.config.prefix, PassOn: c.engine.Retrier.PassOn,
		Ready: func(ctx context.Context) error { return c.ready(ctx, nil) },
	}
}

// readInfo returns the state of a lock as users see it.
func readInfo(i inspect.Info) Info {
	info := Info{
		Key: i.Key, State: State(i.State), Kind: Kind(i.Kind), Fair: i.Fair, Holder: (*Holder)(i.Holder),
		Remaining: i.Remaining, Fence: i.Fence, Waiting: i.Waiting, Permits: i.Permits,
	}
	for _, r := range i.Readers {
		info.Readers = append(info.Readers, Holder(r))
	}
	for _, w := range i.Waiters {
		info.Waiters = append(info.Waiters, Waiter{Client: w.Client, Age: w.Age, Kind: Kind(w.Kind), Fair: w.Fair})
	}
	return info
}

// List iterates over the locks that are held, reserved or kept and whose names
// match the pattern. For each it yields what [Client.Inspect] returns. The
// pattern is that of SCAN: * matches any text, ? one character, and [ab] one of
// these. A backslash makes the next character literal.
//
// A lock that is acquired or released meanwhile may be listed or not. No lock
// is listed twice. A key that is something else is listed with
// [ErrKeyConflict]. Any other error ends the list.
//
// List reads all keys of the database, a few at a time, of one server after
// another. An empty pattern, which no name matches, is [ErrInvalid].
func (c *Client) List(ctx context.Context, pattern string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := c.ready(ctx, nil); err != nil {
			yield(Info{}, wrap("list", "", err))
			return
		}
		if pattern == "" {
			yield(Info{}, wrap("list", "", errNoPattern))
			return
		}
		for name, err := range c.locks().Names(ctx, pattern) {
			if err != nil {
				yield(Info{}, wrap("list", "", err))
				return
			}
			if !c.listOne(ctx, name, yield) {
				return
			}
		}
	}
}

var errNoPattern = fmt.Errorf("%w: pattern: is empty, and * matches all names", ErrInvalid)

// listOne yields one lock, unless it is free by now. It reports whether to go
// on.
func (c *Client) listOne(ctx context.Context, name string, yield func(Info, error) bool) bool {
	var m lockspec.Problems
	if lockspec.CheckKey(&m, name); m.Err() != nil { // no lock has such a name
		return yield(Info{Key: name}, wrap("inspect", name, ErrKeyConflict))
	}
	info, err := c.Inspect(ctx, name)
	if err == nil && info.State == StateFree {
		return true
	}
	return yield(info, err) && (err == nil || errors.Is(err, ErrKeyConflict))
}
