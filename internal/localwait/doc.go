// Package localwait has the calls of one client that wait in this process for
// the same unfair lock: its line. Only the first of them has an entry in Redis,
// on behalf of all, see package waitqueue. So 10,000 callers cost Redis no more
// than one. The package knows no lease: what one call hands to another is its
// type parameter, which package lease sets.
//
// # Waiters
//
// The first waiter of a line acts for all; no line has waiters without a first.
// When it leaves, the next one is first and takes over its entry, ticket
// included. The entry must be known, and both must ask for the same hold. For a
// reentrant lock, none of its requests may be indeterminate: a late one would
// take the lock in the name of the other owner. Otherwise the entry is
// cancelled. A call for another kind of lock gets [ErrOtherKind], and asks
// Redis instead.
//
// # Hand-offs
//
// The holder in this process hands the lock over by [Waiters.Next] and
// [Waiter.Pass], over the channel Waiter.HandOff (handoff.go).
//
// [Waiters.Next] chooses the waiter that a lock goes to in this process. It is
// the first if no request of its entry is under way (the entry then goes to the
// next), otherwise the second. A first waiter that was notified is not chosen:
// Redis may have granted it the lock. There is a [Budget], counted from the
// grant by Redis: 1,000 times, and 10 ms. It is 1 ms while others are in the
// queue, by the last answer to an enqueue. After that the lock is released in
// Redis.
//
// If the chosen waiter is the only one, its entry is retained: it stays in
// Redis, but belongs to no call. The next call that joins uses it.
//
// A grant that [Waiter.Deliver] has delivered is in transit until
// [Waiters.Arrived]. Close releases what is in transit. Once Close has begun,
// nothing is delivered.
//
// # Goroutines and locks
//
// It has no goroutine. One mutex guards the waiters of a client. A caller may
// hold the mutex of its lease. The mutex of package waitqueue may be taken
// under this one, not the other way round.
package localwait
