package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// A worker without Process settles each delivery itself: by Ack, Nack, Release
// or DeadLetter.
func ExampleQueue_Receive() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	_, err := mails.Enqueue(ctx, queue.Task{ID: "a"}, queue.Task{ID: "b"}, queue.Task{ID: "c"}, queue.Task{ID: "d"})
	check(err)
	got, err := mails.Receive(ctx, 4)
	check(err)
	fmt.Println(got[0].Ack(ctx))                                   // done
	fmt.Println(got[1].Nack(ctx, time.Minute, errors.New("busy"))) // again in a minute
	fmt.Println(got[2].Release(ctx))                               // for another worker, uncounted
	fmt.Println(got[3].DeadLetter(ctx, errors.New("no address")))  // never again
	fmt.Println(errors.Is(got[0].Release(ctx), relock.ErrNotHeld)) // it was settled
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil>
	// true
}

// TryReceive does not wait.
func ExampleQueue_TryReceive() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	got, err := mails.TryReceive(ctx, 10)
	fmt.Println(len(got), err)
	_, err = mails.Enqueue(ctx, queue.Task{ID: "a"})
	check(err)
	got, err = mails.TryReceive(ctx, 10)
	check(err)
	fmt.Println(got[0], got[0].Ack(ctx))
	// Output:
	// 0 <nil>
	// task "a", attempt 1 <nil>
}

// A store that keeps the highest fence refuses the late write of a worker that
// has lost its task.
func ExampleDelivery_Fence() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	highest := int64(0)
	write := func(d *queue.Delivery) error {
		if d.Fence() < highest {
			return errors.New("refused: a newer attempt has written")
		}
		highest = d.Fence()
		return nil
	}
	_, err := mails.Enqueue(ctx, queue.Task{ID: "a"})
	check(err)
	first, err := mails.Receive(ctx, 1)
	check(err)
	check(first[0].Nack(ctx, 0, nil)) // or its lease has ended
	second, err := mails.Receive(ctx, 1)
	check(err)
	fmt.Println(write(second[0]))
	fmt.Println(write(first[0]))
	// Output:
	// <nil>
	// refused: a newer attempt has written
}

// The context of a delivery is cancelled when it is settled or lost. Err is the
// check right before a write.
func ExampleDelivery_Context() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	_, err := mails.Enqueue(ctx, queue.Task{ID: "a"})
	check(err)
	got, err := mails.Receive(ctx, 1)
	check(err)
	d := got[0]
	work := d.Context()
	fmt.Println("valid:", d.Err() == nil, work.Err() == nil)
	check(d.Ack(ctx))
	<-work.Done()
	fmt.Println("over:", errors.Is(d.Err(), relock.ErrNotHeld), errors.Is(context.Cause(work), relock.ErrNotHeld))
	// Output:
	// valid: true true
	// over: true true
}
