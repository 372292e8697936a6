package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// New returns all mistakes in one error.
func ExampleNew() {
	_, client, stop := open("orders")
	defer stop()
	orders, err := queue.New("orders", client,
		queue.WithLease(10*time.Second),
		queue.WithMaxAttempts(5),
		queue.WithDeadLetterLimit(1000, 7*24*time.Hour))
	fmt.Println(orders, orders.Name(), err)
	_, err = queue.New("orders", client, queue.WithLease(-1))
	fmt.Println(errors.Is(err, relock.ErrInvalid))
	// Output:
	// queue "orders" orders <nil>
	// true
}

// A task with an ID is queued once. So an Enqueue that was not confirmed can be
// repeated, with the IDs that it returns.
func ExampleQueue_Enqueue() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	welcome := queue.Task{
		ID: "welcome 7", Key: "customer 7", Payload: []byte("welcome"), Header: map[string]string{"trace": "42"},
	}
	reminder := queue.Task{Key: "customer 7", Delay: 24 * time.Hour}
	ids, err := mails.Enqueue(ctx, welcome, reminder)
	fmt.Println(ids[0], err)
	check(mails.Remove(ctx, ids[1])) // its ID was drawn

	_, err = mails.Enqueue(ctx, welcome, queue.Task{ID: "invoice 7", Key: "customer 7"})
	var failed *queue.EnqueueError
	if errors.As(err, &failed) {
		fmt.Println("queued:", failed.Queued, "left out:", failed.Duplicates, "unknown:", failed.Unknown)
	}
	fmt.Println(errors.Is(err, queue.ErrDuplicate), errors.Is(err, relock.ErrUnconfirmed))
	// Output:
	// welcome 7 <nil>
	// queued: [invoice 7] left out: [welcome 7] unknown: []
	// true false
}

// With WithUnique, the ID of a task that is done is refused for a while.
func ExampleWithUnique() {
	payments, _, stop := open("payments", queue.WithUnique(time.Hour))
	defer stop()
	ctx := context.Background()
	pay := queue.Task{ID: "order 1"}
	_, err := payments.Enqueue(ctx, pay)
	check(err)
	got, err := payments.Receive(ctx, 1)
	check(err)
	check(got[0].Ack(ctx))
	_, err = payments.Enqueue(ctx, pay)
	fmt.Println(errors.Is(err, queue.ErrDuplicate))
	// Output: true
}

// Remove removes a task that nobody works on.
func ExampleQueue_Remove() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	_, err := mails.Enqueue(ctx, queue.Task{ID: "first"}, queue.Task{ID: "second"})
	check(err)
	_, err = mails.Receive(ctx, 1)
	check(err)
	fmt.Println(errors.Is(mails.Remove(ctx, "first"), queue.ErrInFlight))
	fmt.Println(mails.Remove(ctx, "second"))
	fmt.Println(errors.Is(mails.Remove(ctx, "second"), queue.ErrNotFound))
	// Output:
	// true
	// <nil>
	// true
}

// Stats counts tasks by what they wait for.
func ExampleQueue_Stats() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	_, err := mails.Enqueue(ctx,
		queue.Task{Key: "customer 7"}, queue.Task{Key: "customer 7"}, queue.Task{},
		queue.Task{Delay: time.Hour})
	check(err)
	_, err = mails.Receive(ctx, 1)
	check(err)
	s, err := mails.Stats(ctx)
	check(err)
	fmt.Println("ready:", s.Ready, "in flight:", s.InFlight, "behind their keys:", s.Behind, "delayed:", s.Delayed)
	fmt.Println("dead:", s.Dead, "idle receivers:", s.Idle, "waits for long:", s.Oldest > time.Minute)
	// Output:
	// ready: 1 in flight: 1 behind their keys: 1 delayed: 1
	// dead: 0 idle receivers: 0 waits for long: false
}

// A paused queue delivers nothing until it is resumed: for a deploy, or while
// the service that tasks call is away.
func ExampleQueue_Pause() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	check(mails.Pause(ctx))
	_, err := mails.Enqueue(ctx, queue.Task{ID: "welcome"})
	check(err)
	got, err := mails.TryReceive(ctx, 1)
	check(err)
	s, err := mails.Stats(ctx)
	check(err)
	fmt.Println("paused:", s.Paused, "delivered:", len(got))

	check(mails.Resume(ctx))
	got, err = mails.TryReceive(ctx, 1)
	check(err)
	fmt.Println("delivered:", len(got))
	// Output:
	// paused: true delivered: 0
	// delivered: 1
}

// A paused key holds back the tasks of one customer.
func ExampleQueue_PauseKey() {
	orders, _, stop := open("orders")
	defer stop()
	ctx := context.Background()
	check(orders.PauseKey(ctx, "customer 7"))
	_, err := orders.Enqueue(ctx, queue.Task{ID: "held", Key: "customer 7"}, queue.Task{ID: "free", Key: "customer 8"})
	check(err)
	got, err := orders.TryReceive(ctx, 10)
	check(err)
	fmt.Println(len(got), got[0].ID)

	check(orders.ResumeKey(ctx, "customer 7"))
	got, err = orders.TryReceive(ctx, 10)
	check(err)
	fmt.Println(len(got), got[0].ID)
	// Output:
	// 1 free
	// 1 held
}
