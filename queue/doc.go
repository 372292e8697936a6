// Package queue provides a task queue on the engine of a [relock.Client]:
// delayed tasks, at least once, one at a time per key and in order.
//
//	q, err := queue.New("mail", client)
//	...
//	ids, err := q.Enqueue(ctx, queue.Task{Key: "customer 7", Payload: payload})
//	...
//	err = q.Process(ctx, func(ctx context.Context, d *queue.Delivery) error {
//		return send(ctx, d.Payload) // ctx is cancelled when the delivery is lost
//	})
//
// # Deliveries
//
// A [Delivery] is one attempt at a task. Like a lock's hold it is a lease,
// which the client's watchdog renews. It is valid until a moment that counts
// from before the request was sent, and that comes before the lease can end.
// From then on [Delivery.Err] reports the loss, and its context is cancelled,
// before another attempt can begin. After the lease the task is due again.
//
// So a task is done at least once. It is done twice if a worker had done its
// work and could not say so. Let the store that is written to compare
// [Delivery.Fence], which rises with every attempt in the queue.
//
// # Keys
//
// Tasks with one key are processed one at a time, in the order of Enqueue. A
// task blocks its key until it is acknowledged, removed or a dead letter,
// retries included. A delayed task joins its key when it is due.
package queue

// Where things are: docs/internals/queue-design.md has the keys in Redis, the
// scripts, and why they are safe. enqueue.go, receiver.go, delivery.go and
// process.go follow a task through the package; settler.go sends settles
// together. References go down: the parts of a queue know its base, and not the
// Queue. The parts of Process know what its runs share, and not the process.
// The package starts goroutines in Process only, which waits for them.
