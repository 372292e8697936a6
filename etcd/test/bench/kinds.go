package main

import (
	"context"
	"fmt"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

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

// kinds are what is compared.
var kinds = []struct {
	name string
	make func(*clientv3.Client) (locker, error)
}{
	{"etcdlock", func(c *clientv3.Client) (locker, error) { return newOurs(c, etcdlock.WithPrefix("ours/")) }},
	{"etcdlock fair", func(c *clientv3.Client) (locker, error) {
		return newOurs(c, etcdlock.WithPrefix("fair/"), etcdlock.WithFair())
	}},
	{mutexName, newTheirs},
	{putsName, func(c *clientv3.Client) (locker, error) { return puts{c}, nil }},
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

// theirs is package concurrency as its documentation shows it. Goroutines that
// use one session share its locks, so each goroutine has its own session.
type theirs struct {
	client   *clientv3.Client
	sessions chan *concurrency.Session
	made     atomic.Int64
}

func newTheirs(c *clientv3.Client) (locker, error) {
	return &theirs{client: c, sessions: make(chan *concurrency.Session, 1000)}, nil
}

func (l *theirs) lock(ctx context.Context, key string) (func(context.Context) error, error) {
	session, err := l.session()
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(session, "theirs/"+key)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer func() { l.sessions <- session }()
		return m.Unlock(ctx)
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
