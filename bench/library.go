package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/relock-go/relock"
)

// lease is long enough that nobody renews while a figure is taken. rueidislock keeps its default of 5s: a waiter that misses a message there waits for as long.
const lease = 30 * time.Second

// library is one way to lock: as its documentation shows it, with its own defaults where they exist.
type library interface {
	// lock waits until the lock is there, and returns what gives it back.
	lock(ctx context.Context, key string) (unlock func() error, err error)
	close()
}

// libraries are made for a server at an address.
var libraries = map[string]func(address string) (library, error){
	"relock":        func(address string) (library, error) { return newRelock(address) },
	"relock fair":   func(address string) (library, error) { return newRelock(address, relock.WithFair()) },
	"redsync":       newRedsync,
	"bsm/redislock": newRedislock,
	"rueidislock":   func(address string) (library, error) { return newRueidis(address, 1) },
	"rueidislock 2": func(address string) (library, error) { return newRueidis(address, 2) },
}

// order is that of the tables.
var order = []string{"relock", "relock fair", "redsync", "bsm/redislock", "rueidislock", "rueidislock 2"}

type relockLibrary struct{ client *relock.Client }

func newRelock(address string, opts ...relock.ClientOption) (library, error) {
	client, err := relock.NewClient("tcp", address, "", append([]relock.ClientOption{relock.WithBlock(), relock.WithMaxIdle(64)}, opts...)...)
	return &relockLibrary{client}, err
}

func (l *relockLibrary) lock(ctx context.Context, key string) (func() error, error) {
	hold, err := relock.NewRedisLock(key, l.client).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return func() error { return hold.Unlock(ctx) }, nil
}

func (l *relockLibrary) close() { _ = l.client.Close() }

type redsyncLibrary struct {
	pool  *redis.Pool
	locks *redsync.Redsync
}

func newRedsync(address string) (library, error) {
	pool := &redis.Pool{MaxIdle: 64, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) }}
	return &redsyncLibrary{pool, redsync.New(redsyncpool.NewPool(pool))}, nil
}

func (l *redsyncLibrary) lock(ctx context.Context, key string) (func() error, error) {
	m := l.locks.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1<<30))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		ok, err := m.UnlockContext(ctx)
		if err == nil && !ok {
			err = errors.New("redsync: not held")
		}
		return err
	}, nil
}

func (l *redsyncLibrary) close() { _ = l.pool.Close() }

type redislockLibrary struct {
	client *goredis.Client
	locks  *redislock.Client
}

func newRedislock(address string) (library, error) {
	client := goredis.NewClient(&goredis.Options{Addr: address, PoolSize: 64})
	return &redislockLibrary{client, redislock.New(client)}, nil
}

func (l *redislockLibrary) lock(ctx context.Context, key string) (func() error, error) {
	// It ends the wait with the lease when ctx has no deadline.
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	held, err := l.locks.Obtain(ctx, key, lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
	cancel()
	if err != nil {
		return nil, err
	}
	return func() error { return held.Release(context.WithoutCancel(ctx)) }, nil
}

func (l *redislockLibrary) close() { _ = l.client.Close() }

type rueidisLibrary struct{ locks rueidislock.Locker }

func newRueidis(address string, majority int32) (library, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{address}}, KeyMajority: majority, NoLoopTracking: true,
	})
	if err != nil {
		return nil, fmt.Errorf("rueidislock: %w", err)
	}
	return &rueidisLibrary{locker}, nil
}

func (l *rueidisLibrary) lock(ctx context.Context, key string) (func() error, error) {
	_, cancel, err := l.locks.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return func() error {
		cancel()
		return nil
	}, nil
}

func (l *rueidisLibrary) close() { l.locks.Close() }
