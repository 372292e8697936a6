package relocktest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/queue"
	"github.com/relock-go/relock/relocktest"
)

// The code under test takes an interface with the methods that it calls.
type enqueuer interface {
	Enqueue(ctx context.Context, tasks ...queue.Task) ([]string, error)
}

// order is the code under test.
func order(ctx context.Context, mails enqueuer, id string) error {
	_, err := mails.Enqueue(ctx, queue.Task{ID: "mail/" + id, Payload: []byte(id)})
	return err
}

// The code under test enqueues a mail, and its handler sends it.
func ExampleNewQueue() {
	ctx := context.Background()
	mails := relocktest.NewQueue("mails")
	fmt.Println("ordered:", order(ctx, mails, "42"))
	fmt.Println("twice:", errors.Is(order(ctx, mails, "42"), queue.ErrDuplicate))
	mails.RunDue(ctx, func(_ context.Context, d *queue.Delivery) error {
		fmt.Printf("mail for %s\n", d.Payload)
		return nil
	})
	// Output:
	// ordered: <nil>
	// twice: true
	// mail for 42
}

// The first attempt fails, and the second one succeeds. In a bubble of
// testing/synctest, sleep until a longer back-off has passed.
func ExampleQueue_RunDue() {
	ctx := context.Background()
	mails := relocktest.NewQueue("mails", queue.WithBackoff(func(int, error) time.Duration { return 0 }))
	fmt.Println("ordered:", order(ctx, mails, "42"))
	fmt.Println("attempts:", mails.RunDue(ctx, func(_ context.Context, d *queue.Delivery) error {
		if d.Attempt == 1 {
			return errors.New("the mail server is away")
		}
		return nil
	}))
	// Output:
	// ordered: <nil>
	// attempts: 2
}

// The handler stops when its delivery is lost, and the attempt begins again.
func ExampleQueue_Lose() {
	ctx := context.Background()
	mails := relocktest.NewQueue("mails")
	fmt.Println("ordered:", order(ctx, mails, "42"))
	mails.RunDue(ctx, func(ctx context.Context, d *queue.Delivery) error {
		if d.Interruptions == 0 {
			mails.Lose(d.ID)
		}
		fmt.Println("interruptions:", d.Interruptions, "lost:", ctx.Err() != nil)
		return ctx.Err()
	})
	// Output:
	// ordered: <nil>
	// interruptions: 0 lost: true
	// interruptions: 1 lost: false
}

// The code under test is an operator's command: it holds the orders of a
// customer back, and says what an order waits for.
func ExampleQueue_PauseKey() {
	ctx := context.Background()
	orders := relocktest.NewQueue("orders")
	_, err := orders.Enqueue(ctx, queue.Task{ID: "42", Key: "customer 7"})
	fmt.Println(err, orders.PauseKey(ctx, "customer 7"))
	handle := func(context.Context, *queue.Delivery) error { return nil }
	fmt.Println("attempts:", orders.RunDue(ctx, handle))
	info, err := orders.Get(ctx, "42")
	fmt.Println(info.State, "paused:", info.Paused, err)
	for paused, err := range orders.PausedKeys(ctx) {
		fmt.Println("paused:", paused.Key, err)
	}
	fmt.Println(orders.ResumeKey(ctx, "customer 7"), "attempts:", orders.RunDue(ctx, handle))
	// Output:
	// <nil> <nil>
	// attempts: 0
	// behind paused: true <nil>
	// paused: customer 7 <nil>
	// <nil> attempts: 1
}

// A bad deploy has failed what it was given: it is given once more.
func ExampleQueue_RequeueDied() {
	ctx := context.Background()
	mails := relocktest.NewQueue("mails", queue.WithMaxAttempts(1))
	began := time.Now()
	fmt.Println(order(ctx, mails, "41"), order(ctx, mails, "42"))
	mails.RunDue(ctx, func(context.Context, *queue.Delivery) error { return errors.New("a bad deploy") })
	for info, err := range mails.Tasks(ctx, queue.StateDead) {
		fmt.Println(info.ID, info.LastError, err)
	}
	fmt.Println(mails.RequeueDied(ctx, began, time.Time{}))
	// Output:
	// <nil> <nil>
	// mail/41 a bad deploy <nil>
	// mail/42 a bad deploy <nil>
	// 2 <nil>
}
