package main

import (
	"slices"
	"time"

	"github.com/relock-go/relock"
)

type relockLibrary struct {
	client *relock.Client
	lock   func(key string, client *relock.Client) mutex
}

// relocks connects with these options, and makes such locks.
func relocks(lock func(key string, client *relock.Client) mutex, opts ...relock.ClientOption) connector {
	return func(address string, _ int) (library, error) {
		client, err := relock.NewClient("tcp", address, "", append(slices.Clone(opts), relock.WithBlock())...)
		return &relockLibrary{client, lock}, err
	}
}

func plainLock(key string, client *relock.Client) mutex { return relock.NewRedisLock(key, client) }

func reentrantLock(key string, client *relock.Client) mutex {
	return relock.NewReentrantLock(key, client)
}

// confirmedLock waits for one replica.
func confirmedLock(key string, client *relock.Client) mutex {
	return relock.NewRedisLock(key, client, relock.WithReplicas(1, time.Second))
}

func readLock(key string, client *relock.Client) mutex {
	return relock.NewRWLock(key, client).RLocker()
}

func writeLock(key string, client *relock.Client) mutex { return relock.NewRWLock(key, client) }

func (l *relockLibrary) mutex(key string) mutex { return l.lock(key, l.client) }

func (l *relockLibrary) close() { _ = l.client.Close() } // the process ends
