package main

import (
	"context"
	"encoding/binary"
	"time"
)

// taskQueue is a task queue on one server, as the library's documentation shows
// it, with its defaults.
type taskQueue interface {
	// enqueue queues a task that is due after the delay.
	enqueue(ctx context.Context, payload []byte, delay time.Duration) error

	// process runs fn for tasks, on so many workers, until stop is called.
	process(workers int, fn func(payload []byte)) (stop func() error, err error)

	close() error
}

// The names of the task queues.
const (
	oursQueue = "relock queue"
	asynqName = "asynq"
)

// taskQueues connects each library to a server. A brief run needs no defaults,
// if others show earlier that it works.
var taskQueues = map[string]func(address string, brief bool) (taskQueue, error){
	oursQueue: newRelockQueue,
	asynqName: newAsynq,
}

// bothQueues lists the libraries of most scenarios of task queues.
var bothQueues = []string{oursQueue, asynqName}

// payloadOf returns a payload of 100 bytes that begins with the number.
func payloadOf(n int64) []byte {
	payload := make([]byte, payloadSize)
	binary.LittleEndian.PutUint64(payload, uint64(n))
	return payload
}

// numberOf returns the number of payloadOf.
func numberOf(payload []byte) int64 { return int64(binary.LittleEndian.Uint64(payload)) }

const payloadSize = 100

// taskRun is one run of a load with one task queue.
type taskRun struct {
	load
	srv *server
}

// open returns the queue of the run's library.
func (r taskRun) open() (taskQueue, error) { return taskQueues[r.Library](r.srv.address, r.Brief) }

// fill queues tasks, on several producers, with the numbers 0 to n-1.
func fill(ctx context.Context, q taskQueue, n int) error {
	const producers = 32
	return inParallel(producers, func(p int) error {
		for i := p; i < n; i += producers {
			if err := q.enqueue(ctx, payloadOf(int64(i)), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// onTasks runs the load on a fresh server.
func (s scenario) onTasks(library string) (figures, error) {
	srv, err := startServer()
	if err != nil {
		return nil, err
	}
	defer srv.stop()
	r := taskRun{load: s.load, srv: srv}
	r.Library, r.Address = library, srv.address
	return s.tasks(r)
}
