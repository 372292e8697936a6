package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
)

const permitLimit = 8

// permits is goroutines of one process that want one of few permits. They hold
// it for a moment.
var permits = together("permits", 64, permitLimit, time.Millisecond, oursPermits, oursPermitsFair, handPermits)

func newPermit(key string, client *relock.Client) mutex {
	return &permit{semaphore: relock.NewSemaphore(key, permitLimit, client)}
}

// permit is a semaphore for one goroutine.
type permit struct {
	semaphore *relock.Semaphore
	hold      relock.Hold
}

func (p *permit) Lock(ctx context.Context) (err error) {
	p.hold, err = p.semaphore.Acquire(ctx)
	return err
}

func (p *permit) Unlock(ctx context.Context) error { return p.hold.Unlock(ctx) }

// The scripts of a semaphore as people write it: a sorted set of holders by the
// ends of their leases, which nobody renews.
var (
	handAcquire = redis.NewScript(1, `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`)
	handRelease = redis.NewScript(1, `return redis.call('ZREM', KEYS[1], ARGV[1])`)
)

// permitArguments returns the arguments for one goroutine.
func permitArguments() []any { return []any{rand.Text(), permitLimit, lease.Milliseconds()} }
