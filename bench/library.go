package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
)

// library makes locks on one server, as the library's documentation shows it.
// It uses the library's defaults if there are any.
type library interface {
	// mutex returns the lock of a key for one goroutine, which uses it
	// repeatedly.
	mutex(key string) mutex
	close()
}

// mutex is what all libraries provide. Lock waits.
type mutex interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

const (
	// lease is so long that no library renews while a figure is taken.
	// rueidislock keeps its default of 5s, because a waiter there that misses a
	// message waits that long.
	lease = 30 * time.Second

	// answerTimeout limits each command, as the defaults of relock and go-redis
	// do. A redigo connection has no default limit.
	answerTimeout = 3 * time.Second
)

// The names of the libraries. The others are compared with the first one.
const (
	ours           = "relock"
	oursFair       = "relock fair"
	oursReentrant  = "relock reentrant"
	oursQuorum     = "relock quorum"
	oursReplicated = "relock replicated"
	oursReading    = "relock RWLock (reading)"
	oursWriting    = "relock RWLock (writing)"
	handReading    = "a hash by hand (reading)"
	handWriting    = "a hash by hand (writing)"

	oursPermits     = "relock Semaphore"
	oursPermitsFair = "relock Semaphore (fair)"
	handPermits     = "a sorted set by hand"

	rawRedigo      = "raw redigo"
	redsyncRedigo  = "redsync redigo"
	redsyncGoRedis = "redsync go-redis"
	redsyncQuorum  = "redsync quorum"
	bsmRedislock   = "bsm/redislock"
	rueidisOneKey  = "rueidislock 1 key"
	rueidisDefault = "rueidislock"
)

// connector connects a library to a server, for a number of goroutines. The
// address may be several, separated by commas.
type connector func(address string, goroutines int) (library, error)

var libraries = map[string]connector{
	ours:            relocks(plainLock),
	oursFair:        relocks(plainLock, relock.WithFair()),
	oursReentrant:   relocks(reentrantLock),
	oursReplicated:  relocks(confirmedLock),
	oursReading:     relocks(readLock),
	oursWriting:     relocks(writeLock),
	oursPermits:     relocks(newPermit),
	oursPermitsFair: relocks(newPermit, relock.WithFair()),
	oursAnew:        anew(relocks(plainLock)),
	oursQuorum:      newRelockQuorum,
	oursTLS:         newRelockTLS,

	handReading: handMode("read"),
	handWriting: handMode("write"),
	handPermits: byHand(handAcquire, handRelease, permitArguments),

	rawRedigo:      newRaw,
	rawTLS:         newRawTLS,
	redsyncRedigo:  newRedsyncRedigo,
	redsyncAnew:    anew(newRedsyncRedigo),
	redsyncTLS:     newRedsyncTLS,
	redsyncGoRedis: newRedsyncGoRedis,
	redsyncQuorum:  newRedsyncQuorum,
	bsmRedislock:   newRedislock,
	rueidisOneKey:  newRueidisOneKey,
	rueidisDefault: newRueidis,
}

// peers lists the libraries that every scenario has.
var peers = []string{rawRedigo, redsyncRedigo, redsyncGoRedis, bsmRedislock, rueidisOneKey, rueidisDefault}

var errNotHeld = errors.New("the lock was not held any more")

// newPool returns a redigo pool that has a connection for each goroutine.
func newPool(address string, goroutines int, opts ...redis.DialOption) *redis.Pool {
	opts = append(opts, redis.DialReadTimeout(answerTimeout), redis.DialWriteTimeout(answerTimeout))
	return &redis.Pool{MaxIdle: max(goroutines, 10), IdleTimeout: time.Minute, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", address, opts...)
	}}
}

// newGoRedis returns a go-redis client that has a connection for each
// goroutine.
func newGoRedis(address string, goroutines int) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: address, PoolSize: max(goroutines, 10)})
}
