package main

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/relock-go/relock"
)

// serialise is a middleware that processes tasks with one key one at a time,
// over all servers of asynq. A worker waits for the lock of its task. If the
// lock is lost, the context of the task is cancelled, and asynq retries it.
func serialise(client *relock.Client, key func(*asynq.Task) string) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			lock := relock.NewRedisLock(key(task), client, relock.WithBlock())
			return lock.Do(ctx, func(ctx context.Context) error {
				return next.ProcessTask(ctx, task)
			})
		})
	}
}
