// Package background runs the work that no caller waits for: jobs that are due
// at a time, such as renewals and polls, and releases that are retried until
// they are certain.
//
// # Fleets and workers
//
// A [Fleet] has a [Worker] for each node, so that a node that hangs delays no
// job of another one. A worker sends jobs over a dedicated connection, so that
// no caller can delay them. Its loop has five steps:
//
//   - sleep until the earliest job is due;
//   - take up to 100 due jobs, and those that are due within Window;
//   - hand the jobs whose keys are at another node by now to its worker;
//   - send them in one pipeline ([script.RunBatch]);
//   - hand each [Task] its result, and add its job again at the time that the
//     task returns.
//
// A client has three fleets. The watchdog's jobs are leases; its Window is
// 10 ms. The retrier's jobs are releases, the poller's are the locks with
// waiters. There is one more for each setting of WithReplicas, since its
// batches wait for the replicas. A client of one server has one worker in each,
// which asks for no key. Close sends what is left over [Links].
//
// A job is in the heap of one worker, in the batch under way, or removed. A
// removed job stays out, and the answer to its request is ignored. A dropped
// one stays out unless it is under way; then its task sees the answer.
//
// # Limits
//
// The limit for an answer is the smallest one of all jobs of the node, due or
// not, and at least 100 ms. A silent connection delays every job. A job that
// misses answers in a row doubles it for its batch, up to the largest. A server
// that is too slow for one short lease is not too slow for the others. Each job
// counts for itself: answers to other jobs say nothing about its own.
//
// A job that comes while a batch is under way counts as if it had been there
// when that was sent. If its limit passes before the batch's, the connection is
// given up. The job's limit is doubled as often as the batch's, so jobs that
// come again and again starve no batch.
//
// A worker that cannot connect takes a detour, see package driver. A borrowed
// connection has the smallest limit, never a doubled one.
//
// # Releases
//
// A [Retrier] is a fleet for releases. A [Release] ends in one of two ways:
//
//   - at the first answer, if no acquire is unanswered: after an error line, a
//     re-entry that is undone, or a loss;
//   - otherwise a lease after the last unanswered request was sent, regardless
//     of the answers: until then a late copy may take the key again.
//
// It ends early with the answer to a release that was sent after the unanswered
// request was resolved. An earlier release may have overtaken that request.
//
// The pauses grow from 10 ms to 800 ms, from sending to sending. They stay
// below a second, so that a late copy of an acquire keeps the key for less than
// that. An answer may take 700 ms before another connection is tried.
// Connecting gets more time after each dial that was too slow, up to the dial
// timeout.
//
// A release that was never answered is given up once the key has expired, and
// logged. A best-effort one is not logged: no lock depends on it.
//
// [Retrier.PassOn] continues a hand-off that stopped after as many entries as
// one script examines. [Retrier.SendLast] and [Links] are for Close, when the
// workers send nothing any more.
//
// # Goroutines and locks
//
// A worker has one goroutine. It starts with the first job, belongs to the
// client's group, and ends when the client is closed. Tasks are called on that
// goroutine, without the mutex of the fleet, and must not block. A goroutine
// that holds the mutex of a fleet takes that of a link at most.
package background
