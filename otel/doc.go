// Package relockotel measures and traces locks and tasks with OpenTelemetry.
//
//	telemetry, err := relockotel.New()
//	...
//	client, err := relock.NewClientURL(url, relock.WithObserver(telemetry.Locks()))
//	mails, err := queue.New("mails", client, queue.WithObserver(telemetry.Queues()))
//	stop, err := telemetry.Watch(client, mails)
//	defer stop()
//
// [Telemetry.Locks] is for any backend: it also serves etcdlock.WithObserver.
//
// # Metrics
//
// Durations are in seconds, from 0.1 ms to 60 s in 18 buckets. A histogram has
// a count, so there are no counters of calls.
//
//	relock.acquire.duration              histogram    kind, outcome, waited, name
//	relock.hold.duration                 histogram    kind, outcome, name
//	relock.renewal.duration              histogram    outcome
//	relock.held                          sum          by Watch
//	relock.waiting                       sum          by Watch
//	relock.connections                   sum          by Watch
//	relock.oldest_hold                   gauge        by Watch
//	relock.losses                        counter      by Watch
//	relock.renewal.errors                counter      by Watch
//	messaging.client.sent.messages       counter      queue, error
//	messaging.client.consumed.messages   counter      queue
//	messaging.process.duration           histogram    queue, task outcome, error
//	relock.task.wait.duration            histogram    queue, retry
//	relock.task.overdue                  counter      queue, retry
//	relock.queue.ready                   gauge        queue, by Watch
//	relock.queue.delayed                 gauge        queue, by Watch
//	relock.queue.in_flight               gauge        queue, by Watch
//	relock.queue.behind                  gauge        queue, by Watch
//	relock.queue.dead                    gauge        queue, by Watch
//	relock.queue.idle                    gauge        queue, by Watch
//	relock.queue.paused                  gauge        queue, by Watch
//	relock.queue.paused_keys             gauge        queue, by Watch
//	relock.queue.oldest                  gauge        queue, by Watch
//	relock.queue.overdue                 sum          queue, by Watch
//
// The attributes of locks are relock.kind and relock.waited, as in
// [relock.LockDone], relock.outcome and relock.name. The outcome of a call is
// that of [relock.OutcomeOf]. The outcome of a hold is ok, lost, forced,
// max_hold, closed, unconfirmed or other. The name is what [WithName] returns.
//
// The attributes of tasks are messaging.destination.name, the name of the
// queue, messaging.system, which is relock, messaging.operation.name,
// relock.task.outcome, which is a [queue.Outcome], relock.task.retry and
// error.type. The names that begin with messaging are those of the semantic
// conventions, which are still in development there, and may follow them.
//
// No metric has a key, an id, an owner or the number of an attempt. A metric
// has at most 1,000 series with names. What has other names, and other queues,
// is counted under the name "other".
//
// # Spans
//
// A call for a lock and a hold are the spans "acquire lock" and "hold lock",
// as children of the span in the call's context. They are made when the call or
// the hold has ended, and only if that span records then. So there is none
// without a span, for a request that is not sampled, and for a hold that lasts
// longer than the span. A span has the attribute relock.key, unless
// [WithoutKeys] is given. Its status is an error after any outcome but ok,
// busy, canceled, timeout and closed.
//
// [Telemetry.Enqueue] and [Telemetry.Process] trace tasks.
//
// # Processes
//
// All clients of a process that are watched count together. Processes are
// distinguished by the resource of the provider, such as service.instance.id.
// All processes report the same figures of one queue: take their maximum, not
// their sum. Only relock.queue.overdue adds up: it counts the deliveries of
// Process that do not end in this process, in the queue that is watched.
package relockotel
