package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

// library makes locks on one server, as its documentation shows it, with its own defaults where they exist.
type library interface {
	// mutex is the lock of a key for one goroutine, which uses it again and again.
	mutex(key string) mutex
	close()
}

// mutex is what all can do. Lock waits.
type mutex interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

const (
	// lease is long enough that nobody renews while a figure is taken. rueidislock keeps its default of 5s: a waiter that misses a message
	// there waits for as long.
	lease = 30 * time.Second

	// answerTimeout limits each command, as relock and go-redis do by themselves. A redigo connection has no limit of its own.
	answerTimeout = 3 * time.Second
)

// The names of the libraries. The first is the one that the others are compared with.
const (
	ours           = "relock"
	oursFair       = "relock fair"
	oursReentrant  = "relock reentrant"
	oursQuorum     = "relock quorum"
	oursReplicated = "relock replicated"
	rawRedigo      = "raw redigo"
	redsyncRedigo  = "redsync redigo"
	redsyncGoRedis = "redsync go-redis"
	redsyncQuorum  = "redsync quorum"
	bsmRedislock   = "bsm/redislock"
	rueidisOneKey  = "rueidislock 1 key"
	rueidisDefault = "rueidislock"
)

// libraries connect to the server at an address, or to several with commas
// between them, for a number of goroutines.
var libraries = map[string]func(address string, goroutines int) (library, error){
	ours:           newRelock,
	oursFair:       newRelockFair,
	oursReentrant:  newRelockReentrant,
	oursQuorum:     newRelockQuorum,
	oursReplicated: newRelockReplicated,
	rawRedigo:      newRaw,
	redsyncRedigo:  newRedsyncRedigo,
	redsyncGoRedis: newRedsyncGoRedis,
	redsyncQuorum:  newRedsyncQuorum,
	bsmRedislock:   newRedislock,
	rueidisOneKey:  newRueidisOneKey,
	rueidisDefault: newRueidis,
}

// peers are the libraries that every scenario has.
var peers = []string{rawRedigo, redsyncRedigo, redsyncGoRedis, bsmRedislock, rueidisOneKey, rueidisDefault}

var errNotHeld = errors.New("the lock was not held any more")

// newPool is a redigo pool in which each goroutine finds a connection.
func newPool(address string, goroutines int) *redis.Pool {
	return &redis.Pool{MaxIdle: max(goroutines, 10), IdleTimeout: time.Minute, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", address, redis.DialReadTimeout(answerTimeout), redis.DialWriteTimeout(answerTimeout))
	}}
}

// newGoRedis is a go-redis client in which each goroutine finds a connection.
func newGoRedis(address string, goroutines int) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: address, PoolSize: max(goroutines, 10)})
}
