package queue_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

// A worker that stops gracefully, and a producer.
func Example() {
	server, stopServer, err := redistest.Launch() // yours is at localhost:6379
	if err != nil {
		log.Fatal(err)
	}
	defer stopServer()
	client, err := relock.NewClient(server.Network, server.Address, "")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mails, err := queue.New("mails", client)
	if err != nil {
		log.Fatal(err)
	}
	_, err = mails.Enqueue(context.Background(),
		queue.Task{Key: "customer 7", Payload: []byte("welcome")},
		queue.Task{Key: "customer 7", Payload: []byte("your first invoice")},
		queue.Task{Key: "customer 7", Payload: []byte("are you still there?"), Delay: 50 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a program
	err = mails.Process(ctx, func(_ context.Context, d *queue.Delivery) error {
		fmt.Printf("to %s: %s\n", d.Key, d.Payload)
		if d.Delay > 0 {
			stop() // nothing more is received, and Process returns
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// to customer 7: welcome
	// to customer 7: your first invoice
	// to customer 7: are you still there?
	// <nil>
}
