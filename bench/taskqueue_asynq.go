package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
	goredis "github.com/redis/go-redis/v9"
)

// asynqQueue uses asynq's defaults, but a pool that has a connection for each
// goroutine.
type asynqQueue struct {
	redis  *goredis.Client
	client *asynq.Client
	config asynq.Config
}

// asynqPool is how many connections asynq may open: one for each producer or
// worker. Its default of ten for each core is slower.
const asynqPool = 80

func newAsynq(address string, brief bool) (taskQueue, error) {
	l := &asynqQueue{redis: newGoRedis(address, asynqPool), config: asynq.Config{LogLevel: asynq.FatalLevel}}
	l.client = asynq.NewClientFromRedisClient(l.redis)
	if brief {
		l.config.TaskCheckInterval, l.config.DelayedTaskCheckInterval = 200*time.Millisecond, 200*time.Millisecond
	}
	return l, nil
}

func (l *asynqQueue) enqueue(ctx context.Context, payload []byte, delay time.Duration) error {
	var opts []asynq.Option
	if delay > 0 {
		opts = append(opts, asynq.ProcessIn(delay))
	}
	_, err := l.client.EnqueueContext(ctx, asynq.NewTask("bench", payload), opts...)
	return err
}

func (l *asynqQueue) process(workers int, fn func(payload []byte)) (stop func() error, err error) {
	config := l.config
	config.Concurrency = workers
	server := asynq.NewServerFromRedisClient(l.redis, config)
	err = server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		fn(t.Payload())
		return nil
	}))
	return func() error {
		server.Shutdown()
		return nil
	}, err
}

func (l *asynqQueue) close() error { return l.redis.Close() }
