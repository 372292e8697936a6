package main

import (
	"time"

	"github.com/relock-go/relock"
)

type relockLibrary struct {
	client *relock.Client
	lock   func(key string, client *relock.Client) mutex
}

func newRelock(address string, _ int) (library, error) {
	return relockWith(address, plainLock)
}

func newRelockFair(address string, _ int) (library, error) {
	return relockWith(address, plainLock, relock.WithFair())
}

func newRelockReentrant(address string, _ int) (library, error) {
	return relockWith(address, reentrantLock)
}

func newRelockReplicated(address string, _ int) (library, error) {
	confirmed := func(key string, client *relock.Client) mutex {
		return relock.NewRedisLock(key, client, relock.WithReplicas(1, time.Second))
	}
	return relockWith(address, confirmed)
}

func plainLock(key string, client *relock.Client) mutex { return relock.NewRedisLock(key, client) }

func reentrantLock(key string, client *relock.Client) mutex {
	return relock.NewReentrantLock(key, client)
}

func relockWith(address string, lock func(string, *relock.Client) mutex, opts ...relock.ClientOption) (library, error) {
	client, err := relock.NewClient("tcp", address, "", append(opts, relock.WithBlock())...)
	return &relockLibrary{client, lock}, err
}

func (l *relockLibrary) mutex(key string) mutex { return l.lock(key, l.client) }

func (l *relockLibrary) close() { _ = l.client.Close() } // the process ends
