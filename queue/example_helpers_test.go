package queue_test

import (
	"log"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

// open returns a queue of a new client and server, for examples.
func open(name string, opts ...queue.Option) (q *queue.Queue, client *relock.Client, stop func()) {
	server, stopServer, err := redistest.Launch()
	if err != nil {
		log.Fatal(err)
	}
	client, err = relock.NewClient(server.Network, server.Address, "")
	if err != nil {
		log.Fatal(err)
	}
	q, err = queue.New(name, client, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return q, client, func() {
		_ = client.Close()
		stopServer()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
