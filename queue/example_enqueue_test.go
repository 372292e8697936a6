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

// A task with an ID is queued once. So an Enqueue without an answer can be
// repeated.
func ExampleQueue_Enqueue() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	welcome := queue.Task{ID: "welcome 7", Key: "customer 7", Payload: []byte("welcome"), Header: map[string]string{"trace": "42"}}
	reminder := queue.Task{ID: "reminder 7", Key: "customer 7", Delay: 24 * time.Hour}
	fmt.Println(mails.Enqueue(ctx, welcome, reminder))

	err := mails.Enqueue(ctx, welcome, queue.Task{ID: "invoice 7", Key: "customer 7"})
	var duplicate *queue.DuplicateError
	if errors.As(err, &duplicate) {
		fmt.Println("left out:", duplicate.IDs)
	}
	fmt.Println(errors.Is(err, queue.ErrDuplicate), errors.Is(err, relock.ErrUnconfirmed))
	// Output:
	// <nil>
	// left out: [welcome 7]
	// true false
}

// With WithUnique, the ID of a task that is done is refused for a while.
func ExampleWithUnique() {
	payments, _, stop := open("payments", queue.WithUnique(time.Hour))
	defer stop()
	ctx := context.Background()
	pay := queue.Task{ID: "order 1"}
	check(payments.Enqueue(ctx, pay))
	got, err := payments.Receive(ctx, 1)
	check(err)
	check(got[0].Ack(ctx))
	fmt.Println(errors.Is(payments.Enqueue(ctx, pay), queue.ErrDuplicate))
	// Output: true
}

// Remove removes a task that nobody works on.
func ExampleQueue_Remove() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	check(mails.Enqueue(ctx, queue.Task{ID: "first"}, queue.Task{ID: "second"}))
	_, err := mails.Receive(ctx, 1)
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
	check(mails.Enqueue(ctx,
		queue.Task{Key: "customer 7"}, queue.Task{Key: "customer 7"}, queue.Task{},
		queue.Task{Delay: time.Hour}))
	_, err := mails.Receive(ctx, 1)
	check(err)
	s, err := mails.Stats(ctx)
	check(err)
	fmt.Println("ready:", s.Ready, "in flight:", s.InFlight, "behind their keys:", s.Behind, "delayed:", s.Delayed)
	fmt.Println("dead:", s.Dead, "idle receivers:", s.Idle, "waits for long:", s.Oldest > time.Minute)
	// Output:
	// ready: 1 in flight: 1 behind their keys: 1 delayed: 1
	// dead: 0 idle receivers: 0 waits for long: false
}
