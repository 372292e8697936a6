// Package waitqueue has the waiters of a client in Redis: its queue entries,
// its polls and its subscription. A poll is also a heartbeat. It knows no
// lease, and no local waiters (package localwait). docs/internals/protocol.md
// has the protocol of the queue, with its scripts.
//
// The order of waiters is only in Redis, and a message is only a hint: a call
// acts on the answer of a script. The exception is a grant by message
// (grant.go, and docs/internals/grants.md), which marks the entry: its call
// needs no answer. A [Line] is all calls of a client for one lock. For an
// unfair lock most of them are local waiters, and only the first has an [Entry]
// in Redis.
//
// There are two ways to wake a waiter. The holder in this process hands the
// lock over, see package localwait. One of another process sends a message:
// subscription.go gets it, and targets.go finds whom it is for. For an entry,
// lines.notify sends on the channel Entry.Wake. It does the same for the answer
// to a poll (poll.go). The pause that it ends is in acquire/wait.go.
// wakeup_limit.go only limits how often: eight attempts without a pause, then
// one in 5 ms. A message within the pause is delivered when the pause ends.
//
// # Entries
//
// An entry sends the requests of one call, one at a time. Its name is drawn for
// one hold, before the first enqueue is sent. A granted or cancelled name is
// never used again. Known is true if the server's last answer said that it is
// in the queue. An entry sends:
//
//   - try, if its call does not wait;
//   - enqueue, until it is known, and again after "not queued" or an error;
//   - claim, once it is known, after a message or the answer to a poll;
//   - cancel, when the call leaves, by the release retrier.
//
// At most 32 calls of a line send together: ten thousand waiters must not open
// ten thousand connections. The claim of a waiter that was notified
// individually does not count.
//
// A call that leaves cancels its entry with the flag "also the hold". If a
// request of the entry is indeterminate, the cancel is repeated until it is
// certain. A message for an unknown entry is answered by a cancel without that
// flag. The entry may just have been granted, and the flag would end a live
// hold. A message for an entry that a message has granted is ignored until the
// claim is answered: a cancel would end the reservation.
//
// # Polls
//
// A line has one poll, a job of the poller. The next one is due a period later,
// or when the lock expires if that is sooner, but never before the poll
// interval. While the subscription is not confirmed, the poll interval is used.
// Interval and period are the smallest of the calls in the line.
//
// A poll lists the 64 oldest entries, except those whose request is under way.
// So a client that can poll but not claim loses each turn once only. After an
// error the pauses grow to 1 s. The oldest call of the line asks as well. It
// has the pool and the whole command timeout, and logs what keeps it waiting.
// An answer may take 700 ms.
//
// # The subscription
//
// A client has one for each node, started by its first waiter there. It has one
// channel for all locks, or in a Cluster a sharded one for each lock. A line
// uses the channel at the node of its key; if the key comes to another node,
// its next poll subscribes there. docs/internals/slots.md has the states of a
// channel (channel.go). A subscription reconnects after growing pauses
// with jitter, 10 ms to 2 s. While it is not permitted they are 30 s to 60 s,
// which is logged once. Whenever a channel is confirmed or lost, its lines are
// polled immediately, and its RedLock calls are notified. A line whose enqueue
// was under way then is polled right after its answer. So no enqueue waits for
// the subscription. One that is silent for 3 s, while polls are answered, is
// reset. A server that refuses sharded channels gets one for all locks.
//
// Calls for RedLocks and receivers of task queues share the subscription
// (targets.go): a message for one is passed on, and they are notified when
// their channel is confirmed or lost.
//
// # Local hand-offs
//
// The entry of the first local waiter is parked while no request of it is under
// way (handoff.go): a hand-off may take it, by [Entry.Yield]. A message unparks
// it, since Redis may have granted it the lock. [Entry.Rebind] makes an entry
// take the lock for its next call.
//
// An entry that a hand-off takes while nobody else waits is retained: it stays
// in Redis, but belongs to no call. The next call that joins uses it, polled
// for immediately if that was not done for a poll interval. If no call joins,
// the release removes it from the queue in the same script. A message for a
// retained entry cancels it.
//
// # Goroutines and locks
//
// The poller and the subscription have one each for each node, and a dedicated
// connection. Each is started by the first waiter there. Each notification that
// is held back has one with a timer. All belong to the client's group and end
// with it.
//
// The parts of a queue share one mutex, base.mu, which guards all but what a
// line knows of its lock (answers.go). Below [Queue] are the targets, below
// these the lines with their entries, and below these the subscriptions. They
// see the calls above by an interface only. A caller may hold the mutex of its
// lease and that of the local waiters, not the other way round. Nothing is sent
// or logged while base.mu is held.
package waitqueue
