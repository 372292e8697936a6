package main

import (
	"context"
	"io"

	"github.com/go-redsync/redsync/v4"
	overgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	overredigo "github.com/go-redsync/redsync/v4/redis/redigo"
)

// redsyncLibrary polls every 50 to 250 ms, which is redsync's default, but
// without a limit of tries.
type redsyncLibrary struct {
	locks  *redsync.Redsync
	client io.Closer
}

func newRedsyncRedigo(address string, goroutines int) (library, error) {
	pool := newPool(address, goroutines)
	return &redsyncLibrary{redsync.New(overredigo.NewPool(pool)), pool}, nil
}

func newRedsyncGoRedis(address string, goroutines int) (library, error) {
	client := newGoRedis(address, goroutines)
	return &redsyncLibrary{redsync.New(overgoredis.NewPool(client)), client}, nil
}

func (l *redsyncLibrary) mutex(key string) mutex {
	return redsyncMutex{l.locks.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1<<30))}
}

func (l *redsyncLibrary) close() { _ = l.client.Close() } // the process ends

type redsyncMutex struct{ lock *redsync.Mutex }

func (m redsyncMutex) Lock(ctx context.Context) error { return m.lock.LockContext(ctx) }

func (m redsyncMutex) Unlock(ctx context.Context) error {
	ok, err := m.lock.UnlockContext(ctx)
	if err == nil && !ok {
		return errNotHeld
	}
	return err
}
