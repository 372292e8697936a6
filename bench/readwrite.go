package main

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// readWriteLibraries are those of read/write locks. No peer has one, so the
// others are what users write themselves.
var readWriteLibraries = []string{oursReading, handReading, oursWriting, handWriting}

// shared64 is goroutines of one process with the same key. Those that read hold
// it together.
var shared64 = together("shared 64", 64, 64, 0, readWriteLibraries...)

// The scripts of a read/write lock as people write it: a hash with the mode and
// a counter. A crashed reader keeps writers out for as long as others read.
var (
	handLock = redis.NewScript(1, `
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode and (mode ~= 'read' or ARGV[1] ~= 'read') then
  return 0
end
redis.call('HSET', KEYS[1], 'mode', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'count', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`)
	handUnlock = redis.NewScript(1, `
if redis.call('HINCRBY', KEYS[1], 'count', -1) <= 0 then
  redis.call('DEL', KEYS[1])
end
return 1`)
)

// handLibrary is locks by two scripts over a redigo pool, tried again every
// rawPause.
type handLibrary struct {
	pool         *redis.Pool
	lock, unlock *redis.Script
	arguments    func() []any // of both, for one goroutine
}

func byHand(lock, unlock *redis.Script, arguments func() []any) connector {
	return func(address string, goroutines int) (library, error) {
		return &handLibrary{newPool(address, goroutines), lock, unlock, arguments}, nil
	}
}

// handMode connects the read/write lock by hand, for one side of it.
func handMode(mode string) connector {
	return byHand(handLock, handUnlock, func() []any { return []any{mode, lease.Milliseconds()} })
}

func (l *handLibrary) mutex(key string) mutex {
	return &handMutex{l, append([]any{key}, l.arguments()...)}
}

func (l *handLibrary) close() { _ = l.pool.Close() } // the process ends

type handMutex struct {
	*handLibrary
	keyAndArguments []any
}

func (m *handMutex) Lock(ctx context.Context) error {
	for {
		if taken, err := m.run(m.lock); taken || err != nil {
			return err
		}
		select {
		case <-time.After(rawPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *handMutex) Unlock(context.Context) error {
	released, err := m.run(m.unlock)
	if err == nil && !released {
		return errNotHeld
	}
	return err
}

func (m *handMutex) run(s *redis.Script) (bool, error) {
	conn := m.pool.Get()
	defer conn.Close() //nolint:errcheck // the command's error counts
	return redis.Bool(s.Do(conn, m.keyAndArguments...))
}
