package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock/queue"
)

// Why is order 42 not processed? It is behind order 41 of its customer, which
// fails, and is tried again in an hour. Nothing is paused.
func ExampleQueue_Get() {
	orders, _, stop := open("orders", queue.WithLabel("checkout"))
	defer stop()
	ctx := context.Background()
	_, err := orders.Enqueue(ctx,
		queue.Task{ID: "order 41", Key: "customer 7"}, queue.Task{ID: "order 42", Key: "customer 7"})
	check(err)
	got, err := orders.Receive(ctx, 1)
	check(err)
	check(got[0].Nack(ctx, time.Hour, errors.New("no such warehouse")))

	info, err := orders.Get(ctx, "order 42")
	check(err)
	fmt.Println(info.ID, "is", info.State, info.Before)
	info, err = orders.Get(ctx, info.Before)
	check(err)
	fmt.Println(info.ID, "is", info.State, "after", info.Attempts, "attempt:", info.LastError)
	s, err := orders.Stats(ctx)
	check(err)
	fmt.Println("paused:", s.Paused, "paused keys:", s.PausedKeys, "workers that wait:", s.Idle)
	// Output:
	// order 42 is behind order 41
	// order 41 is delayed after 1 attempt: no such warehouse
	// paused: false paused keys: 0 workers that wait: 0
}

// What is in flight, and in which process?
func ExampleQueue_Tasks() {
	orders, _, stop := open("orders", queue.WithLabel("checkout"))
	defer stop()
	ctx := context.Background()
	_, err := orders.Enqueue(ctx, queue.Task{ID: "41"}, queue.Task{ID: "42"}, queue.Task{ID: "43"})
	check(err)
	_, err = orders.Receive(ctx, 2)
	check(err)
	for info, err := range orders.Tasks(ctx, queue.StateInFlight) {
		check(err)
		fmt.Println(info.ID, info.Holder.Label, info.Holder.PID > 0, info.LeaseEnd.After(info.Holder.Since))
	}
	// Output:
	// 41 checkout true true
	// 42 checkout true true
}

// A task that is due at a time, and is tried once.
func ExampleTask_at() {
	mails, _, stop := open("mails")
	defer stop()
	ctx := context.Background()
	tomorrow := time.Now().Add(24 * time.Hour)
	_, err := mails.Enqueue(ctx, queue.Task{ID: "reminder", At: tomorrow, MaxAttempts: 1})
	check(err)
	info, err := mails.Get(ctx, "reminder")
	check(err)
	fmt.Println(info.State, info.Due.Sub(tomorrow).Abs() < time.Minute, info.MaxAttempts)
	// Output: delayed true 1
}

// Which customers are paused, and since when?
func ExampleQueue_PausedKeys() {
	orders, _, stop := open("orders")
	defer stop()
	ctx := context.Background()
	check(orders.PauseKey(ctx, "customer 7"))
	for paused, err := range orders.PausedKeys(ctx) {
		check(err)
		fmt.Println(paused.Key, time.Since(paused.Since) < time.Minute)
		check(orders.ResumeKey(ctx, paused.Key))
	}
	// Output: customer 7 true
}

// Which queues have tasks, or are paused?
func ExampleList() {
	mails, client, stop := open("mails")
	defer stop()
	orders, err := queue.New("orders", client)
	check(err)
	ctx := context.Background()
	_, err = mails.Enqueue(ctx, queue.Task{})
	check(err)
	check(orders.Pause(ctx))
	var names []string
	for name, err := range queue.List(ctx, client) {
		check(err)
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Println(names)
	// Output: [mails orders]
}
