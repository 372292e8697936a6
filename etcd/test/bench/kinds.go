package main

import (
	"context"
	"fmt"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	etcdlock "github.com/relock-go/relock/etcd"
)

// locker is one way to lock, of one client.
type locker interface {
	lock(ctx context.Context, key string) (unlock func(context.Context) error, err error)
	close()
}

const (
	mutexName = "concurrency.Mutex"
	putsName  = "two Puts"
)

// kinds are what is compared. Those with pairsOnly exclude nobody, or not all.
var kinds = []struct {
	name      string
	make      func(*clientv3.Client) (locker, error)
	pairsOnly bool
}{
	{"etcdlock", func(c *clientv3.Client) (locker, error) { return newOurs(c, etcdlock.WithPrefix("ours/")) }, false},
	{"etcdlock fair", func(c *clientv3.Client) (locker, error) {
		return newOurs(c, etcdlock.WithPrefix("fair/"), etcdlock.WithFair())
	}, false},
	{mutexName, newTheirs(mutexOf), false},
	{"recipe.RWMutex (reading)", newTheirs(readMutexOf), true},
	{"recipe.RWMutex (writing)", newTheirs(writeMutexOf), true},
	{putsName, func(c *clientv3.Client) (locker, error) { return puts{c}, nil }, true},
}

type ours struct{ locker *etcdlock.Locker }

func newOurs(c *clientv3.Client, opts ...etcdlock.Option) (locker, error) {
	l, err := etcdlock.NewLocker(c, opts...)
	return ours{l}, err
}

func (l ours) lock(ctx context.Context, key string) (func(context.Context) error, error) {
	hold, err := l.locker.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return hold.Unlock, nil
}

func (l ours) close() { _ = l.locker.Close() }

// theirs is package concurrency or recipe as its documentation shows it.
// Goroutines that use one session share its locks, so each goroutine has its
// own session.
type theirs struct {
	client   *clientv3.Client
	take     take
	sessions chan *concurrency.Session
	made     atomic.Int64
}

// take acquires a lock of a session, and returns how it is released.
type take func(ctx context.Context, s *concurrency.Session, key string) (release func(context.Context) error, err error)

func newTheirs(t take) func(*clientv3.Client) (locker, error) {
	return func(c *clientv3.Client) (locker, error) {
		return &theirs{client: c, take: t, sessions: make(chan *concurrency.Session, 1000)}, nil
	}
}

func mutexOf(ctx context.Context, s *concurrency.Session, key string) (func(context.Context) error, error) {
	m := concurrency.NewMutex(s, "theirs/"+key)
	return m.Unlock, m.Lock(ctx)
}

func readMutexOf(_ context.Context, s *concurrency.Session, key string) (func(context.Context) error, error) {
	m := recipe.NewRWMutex(s, "reading/"+key)
	return func(context.Context) error { return m.RUnlock() }, m.RLock()
}

func writeMutexOf(_ context.Context, s *concurrency.Session, key string) (func(context.Context) error, error) {
	m := recipe.NewRWMutex(s, "writing/"+key)
	return func(context.Context) error { return m.Unlock() }, m.Lock()
}

func (l *theirs) lock(ctx context.Context, key string) (func(context.Context) error, error) {
	session, err := l.session()
	if err != nil {
		return nil, err
	}
	release, err := l.take(ctx, session, key)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer func() { l.sessions <- session }()
		return release(ctx)
	}, nil
}

// session returns an idle session. Creating one is not measured, and happens
// once for each goroutine.
func (l *theirs) session() (*concurrency.Session, error) {
	select {
	case s := <-l.sessions:
		return s, nil
	default:
		l.made.Add(1)
		return concurrency.NewSession(l.client, concurrency.WithTTL(10))
	}
}

func (l *theirs) close() {
	for range l.made.Load() {
		_ = (<-l.sessions).Close()
	}
}

// puts is what a lock and an unlock cost at the least: a write each.
type puts struct{ client *clientv3.Client }

func (l puts) lock(ctx context.Context, key string) (func(context.Context) error, error) {
	put := func(ctx context.Context) error {
		_, err := l.client.Put(ctx, fmt.Sprintf("puts/%s", key), "value")
		return err
	}
	return put, put(ctx)
}

func (l puts) close() {}
