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

// The handler stops when its delivery is lost, and another attempt follows.
func ExampleQueue_Lose() {
	ctx := context.Background()
	mails := relocktest.NewQueue("mails")
	fmt.Println("ordered:", order(ctx, mails, "42"))
	mails.RunDue(ctx, func(ctx context.Context, d *queue.Delivery) error {
		if d.Attempt == 1 {
			mails.Lose(d.ID)
		}
		fmt.Println("attempt", d.Attempt, "lost:", ctx.Err() != nil)
		return ctx.Err()
	})
	// Output:
	// ordered: <nil>
	// attempt 1 lost: true
	// attempt 2 lost: false
}
