package main

import (
	"errors"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	overredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
)

// quorum is a contended key on three independent servers.
var quorum = on(independent(3), traced("quorum", 2, 2, 2*time.Millisecond, oursQuorum, redsyncQuorum))

// quorumLease is short, because relock does not count a server that was started
// less than the largest lease ago.
const quorumLease = time.Second

type relockQuorum []*relock.Client

func newRelockQuorum(addresses string, _ int) (library, error) {
	var all relockQuorum
	for address := range strings.SplitSeq(addresses, ",") {
		client, err := relock.NewClient("tcp", address, "", relock.WithBlock())
		if err != nil {
			return nil, err
		}
		all = append(all, client)
	}
	return all, nil
}

func (q relockQuorum) mutex(key string) mutex {
	return relock.NewRedLock(key, q, relock.WithMaxLease(quorumLease), relock.WithWatchdog(quorumLease))
}

func (q relockQuorum) close() {
	for _, client := range q {
		_ = client.Close() // the process ends
	}
}

// pools are the pools of a library that uses one for each server.
type pools []*redis.Pool

func (p pools) Close() (err error) {
	for _, pool := range p {
		err = errors.Join(err, pool.Close())
	}
	return err
}

func newRedsyncQuorum(addresses string, goroutines int) (library, error) {
	var own pools
	var all []redsyncredis.Pool
	for address := range strings.SplitSeq(addresses, ",") {
		pool := newPool(address, goroutines)
		own, all = append(own, pool), append(all, overredigo.NewPool(pool))
	}
	return &redsyncLibrary{redsync.New(all...), own}, nil
}
