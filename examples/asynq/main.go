// Asynq processes the tasks of a customer one at a time, over all servers of
// asynq: its middleware holds a lock. It needs redis-server on the PATH.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

func main() {
	server, stop, err := redistest.Launch() // yours is at localhost:6379
	if err == nil {
		err = run(os.Stdout, server.Network, server.Address)
		stop()
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(out io.Writer, network, address string) error {
	client, err := relock.NewClient(network, address, "")
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is held by then
	lines, todo := log.New(out, "", 0), sync.WaitGroup{}
	customer := func(task *asynq.Task) string { return string(task.Payload()) }
	handler := serialise(client, customer)(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		defer todo.Done()
		lines.Printf("%s: a task begins", customer(task))
		time.Sleep(20 * time.Millisecond) // the work
		lines.Printf("%s: a task ends", customer(task))
		return nil
	}))
	redis := asynq.RedisClientOpt{Network: network, Addr: address}
	tasks, server := asynq.NewClient(redis),
		asynq.NewServer(redis, asynq.Config{Concurrency: 10, LogLevel: asynq.FatalLevel})
	for _, name := range []string{"alice", "bob", "alice", "bob", "alice", "bob", "alice", "bob"} {
		todo.Add(1)
		if _, err := tasks.Enqueue(asynq.NewTask("work", []byte(name))); err != nil {
			return err
		}
	}
	if err := server.Start(handler); err != nil {
		return err
	}
	todo.Wait()
	server.Shutdown()
	return tasks.Close()
}
