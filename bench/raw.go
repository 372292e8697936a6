package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/gomodule/redigo/redis"
)

// rawLibrary is what users write themselves on a redigo pool. It sends SET NX
// PX, again every rawPause, and a script that compares and deletes.
type rawLibrary struct{ pool *redis.Pool }

const rawPause = 50 * time.Millisecond

var deleteEqual = redis.NewScript(1,
	"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")

func newRaw(address string, goroutines int) (library, error) {
	return &rawLibrary{newPool(address, goroutines)}, nil
}

func (l *rawLibrary) mutex(key string) mutex { return &rawMutex{pool: l.pool, key: key} }

func (l *rawLibrary) close() { _ = l.pool.Close() } // the process ends

type rawMutex struct {
	pool  *redis.Pool
	key   string
	value string
}

func (m *rawMutex) Lock(ctx context.Context) error {
	m.value = rand.Text()
	for {
		if taken, err := m.try(); taken || err != nil {
			return err
		}
		select {
		case <-time.After(rawPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *rawMutex) try() (bool, error) {
	conn := m.pool.Get()
	defer conn.Close() //nolint:errcheck // the command's error counts
	reply, err := conn.Do("SET", m.key, m.value, "PX", lease.Milliseconds(), "NX")
	return reply != nil, err
}

func (m *rawMutex) Unlock(context.Context) error {
	conn := m.pool.Get()
	defer conn.Close() //nolint:errcheck // the command's error counts
	deleted, err := redis.Int(deleteEqual.Do(conn, m.key, m.value))
	if err == nil && deleted == 0 {
		return errNotHeld
	}
	return err
}
