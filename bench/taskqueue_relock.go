package main

import (
	"context"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// relockQueue uses a client for each queue, with all defaults.
type relockQueue struct {
	client *relock.Client
	queue  *queue.Queue
}

// briefLease is the lease of a brief run.
const briefLease = 300 * time.Millisecond

func newRelockQueue(address string, brief bool) (taskQueue, error) {
	var opts []queue.Option
	if brief {
		opts = append(opts, queue.WithLease(briefLease))
	}
	return openRelockQueue(address, opts...)
}

func openRelockQueue(address string, opts ...queue.Option) (*relockQueue, error) {
	client, err := relock.NewClient("tcp", address, "")
	if err != nil {
		return nil, err
	}
	q, err := queue.New("bench", client, opts...)
	return &relockQueue{client, q}, err
}

func (l *relockQueue) enqueue(ctx context.Context, payload []byte, delay time.Duration) error {
	_, err := l.queue.Enqueue(ctx, queue.Task{Payload: payload, Delay: delay})
	return err
}

func (l *relockQueue) process(workers int, fn func(payload []byte)) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- l.queue.Process(ctx, func(_ context.Context, d *queue.Delivery) error {
			fn(d.Payload)
			return nil
		}, queue.WithWorkers(workers))
	}()
	return func() error {
		cancel()
		return <-done
	}, nil
}

func (l *relockQueue) close() error { return l.client.Close() }
