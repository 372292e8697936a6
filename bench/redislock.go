package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

// redislockLibrary polls every 100 ms, as redislock's documentation shows it.
type redislockLibrary struct {
	client *goredis.Client
	locks  *redislock.Client
}

func newRedislock(address string, goroutines int) (library, error) {
	client := newGoRedis(address, goroutines)
	return &redislockLibrary{client, redislock.New(client)}, nil
}

func (l *redislockLibrary) mutex(key string) mutex {
	return &redislockMutex{
		locks: l.locks, key: key, options: &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)},
	}
}

func (l *redislockLibrary) close() { _ = l.client.Close() } // the process ends

type redislockMutex struct {
	locks   *redislock.Client
	key     string
	options *redislock.Options
	held    *redislock.Lock
}

// Lock stops waiting after lease if ctx has no deadline.
func (m *redislockMutex) Lock(ctx context.Context) (err error) {
	m.held, err = m.locks.Obtain(ctx, m.key, lease, m.options)
	return err
}

func (m *redislockMutex) Unlock(ctx context.Context) error { return m.held.Release(ctx) }
