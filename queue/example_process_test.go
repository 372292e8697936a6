package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// An error is a retry, Permanent is not.
func ExampleQueue_Process() {
	backoff := func(attempt int, err error) time.Duration {
		if attempt == 1 {
			return 10 * time.Millisecond
		}
		return queue.Backoff(attempt, err)
	}
	mails, _, stop := open("mails", queue.WithBackoff(backoff))
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	_, err := mails.Enqueue(ctx, queue.Task{ID: "no address"}, queue.Task{ID: "server busy"})
	check(err)
	err = mails.Process(ctx, func(_ context.Context, d *queue.Delivery) error {
		fmt.Println(d)
		switch {
		case d.ID == "no address":
			return queue.Permanent(errors.New("nobody lives there"))
		case d.Attempt == 1:
			return errors.New("try again")
		}
		cancel() // SIGTERM, in a program
		return nil
	}, queue.WithWorkers(1), queue.WithTimeout(time.Minute), queue.WithGrace(10*time.Second))
	fmt.Println(err)
	// Output:
	// task "no address", attempt 1
	// task "server busy", attempt 1
	// task "server busy", attempt 2
	// <nil>
}

// Never more than two payments are in flight, over all workers.
func ExampleWithMaxInFlight() {
	payments, _, stop := open("payments", queue.WithMaxInFlight(2))
	defer stop()
	ctx := context.Background()
	_, err := payments.Enqueue(ctx, queue.Task{ID: "a"}, queue.Task{ID: "b"}, queue.Task{ID: "c"})
	check(err)
	got, err := payments.TryReceive(ctx, 10)
	fmt.Println(got, err)
	check(got[0].Ack(ctx))
	got, err = payments.TryReceive(ctx, 10)
	fmt.Println(got, err)
	// Output:
	// [task "a", attempt 1 task "b", attempt 1] <nil>
	// [task "c", attempt 1] <nil>
}

// Dead letters have failed for good. Requeue gives them a new start.
func ExampleQueue_DeadLetters() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	_, err := mails.Enqueue(ctx, queue.Task{ID: "a", Payload: []byte("hello")})
	check(err)
	got, err := mails.Receive(ctx, 1)
	check(err)
	check(got[0].DeadLetter(ctx, errors.New("no address")))

	for letter, err := range mails.DeadLetters(ctx) {
		check(err)
		fmt.Printf("%s %q: %s, after %d attempt\n", letter.ID, letter.Payload, letter.Reason, letter.Attempts)
		fmt.Println(letter.DiedAt.Before(letter.EnqueuedAt))
	}
	fmt.Println(mails.Requeue(ctx, "a", "unknown"))
	got, err = mails.Receive(ctx, 1)
	check(err)
	fmt.Println(got[0], got[0].Ack(ctx))
	// Output:
	// a "hello": no address, after 1 attempt
	// false
	// 1 <nil>
	// task "a", attempt 1 <nil>
}

// What died in a bad deploy is queued once more.
func ExampleQueue_RequeueDied() {
	mails, _, stop := open("mails", queue.WithMaxAttempts(1))
	defer stop()
	ctx := context.Background()
	deployed := time.Now()
	_, err := mails.Enqueue(ctx, queue.Task{ID: "a"}, queue.Task{ID: "b"})
	check(err)
	got, err := mails.Receive(ctx, 2)
	check(err)
	for _, d := range got {
		check(d.DeadLetter(ctx, errors.New("template is missing")))
	}
	fmt.Println(mails.RequeueDied(ctx, deployed.Add(-time.Hour), deployed))
	fmt.Println(mails.RequeueDied(ctx, deployed.Add(-time.Hour), deployed.Add(time.Hour)))
	// Output:
	// 0 <nil>
	// 2 <nil>
}

// Tasks and an HTTP handler that change the same account exclude each other.
func ExampleWithLocker() {
	jobs, client, stop := open("jobs")
	defer stop()
	locker, err := relock.NewLocker(client)
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	handler, err := locker.Lock(ctx, "account 7")
	check(err)
	_, err = jobs.Enqueue(ctx, queue.Task{ID: "book", Key: "account 7"})
	check(err)
	time.AfterFunc(100*time.Millisecond, func() {
		fmt.Println("handler: done")
		check(handler.Unlock(context.Background()))
	})
	err = jobs.Process(ctx, func(ctx context.Context, d *queue.Delivery) error {
		_, held := relock.HoldFromContext(ctx, d.Key)
		fmt.Println(d, "under the lock:", held)
		cancel()
		return nil
	}, queue.WithLocker(locker, func(t queue.Task) string { return t.Key }))
	fmt.Println(err)
	// Output:
	// handler: done
	// task "book", attempt 1 under the lock: true
	// <nil>
}

// An observer feeds metrics.
func ExampleObserver() {
	ctx, cancel := context.WithCancel(context.Background())
	mails, _, stop := open("mails", queue.WithObserver(queue.Observer{
		Enqueued: func(_ context.Context, e queue.Enqueued) { fmt.Println("enqueued", e.Queue, e.ID) },
		Received: func(_ context.Context, e queue.Received) {
			fmt.Println("received", e.ID, "in time:", e.Waited < time.Minute)
		},
		Finished: func(_ context.Context, e queue.Finished) {
			fmt.Println(e.ID, e.Outcome, e.Err, time.Since(e.Start) < time.Minute)
			if e.Outcome == queue.Acknowledged {
				cancel()
			}
		},
	}))
	defer stop()
	_, err := mails.Enqueue(ctx, queue.Task{ID: "a"})
	check(err)
	check(mails.Process(ctx, func(context.Context, *queue.Delivery) error { return nil }))
	// Output:
	// enqueued mails a
	// received a in time: true
	// a acknowledged <nil> true
}
