// Package waitqueue owns who is next: the entries of a client in the queues of
// locks in Redis, its local waiters, the polls that are also its heartbeat, and
// its one subscription. It knows no lease.
//
// The order of waits is only in Redis, and a message is only a hint: a call
// goes by the answer of a script. A [Line] is all calls of a client for one
// lock. For an unfair lock they are [Waiter] values in memory, and only the
// first has an [Entry] in Redis, on behalf of all.
//
// There are two ways to wake a waiter. The holder in this process hands the lock
// over by Queue.Next and Waiter.Pass, over the channel Waiter.Turn (handoff.go).
// One of another process sends a message: subscription.go or poll.go, then
// Queue.Notify, over the channel Entry.Wake; the pause that it ends is in
// acquire/wait.go. wakeup_limit.go only limits how often.
//
// Goroutines: the poller and the subscription, each started by the first wait,
// and one timer for each notification that is held back. All belong to the
// client's group and end with it.
//
// The queue's mutex guards all of it. A caller may hold the mutex of its lease,
// not the other way round. Nothing is sent or logged while it is held.
package waitqueue
