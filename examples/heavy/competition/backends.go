package main

import (
	"context"
	"errors"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	etcdserver "github.com/relock-go/relock/etcd/test/embedded"
	"github.com/relock-go/relock/examples/internal/embedded"
)

func startRedis() (string, func(), error) { return embedded.Open("") }

func openRedis(server string, fair bool) (b backend, err error) {
	client, err := relock.NewClientURL(server)
	if err != nil {
		return b, err
	}
	var opts []relock.LockOption
	if fair {
		opts = append(opts, relock.WithFair())
	}
	if b.locker, err = relock.NewLocker(client, opts...); err != nil {
		return b, errors.Join(err, client.Close())
	}
	b.close = client.Close
	b.waiting = func(ctx context.Context) (int, error) {
		info, err := client.Inspect(ctx, key)
		return info.Waiting, err
	}
	return b, nil
}

func startEtcd() (string, func(), error) { return etcdserver.Start() }

func openEtcd(server string, fair bool) (b backend, err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(server, ","), Logger: zap.NewNop()})
	if err != nil {
		return b, err
	}
	var opts []etcdlock.Option
	if fair {
		opts = append(opts, etcdlock.WithFair())
	}
	locker, err := etcdlock.NewLocker(client, opts...)
	if err != nil {
		return b, errors.Join(err, client.Close())
	}
	b.locker = locker
	b.close = func() error { return errors.Join(locker.Close(), client.Close()) }
	b.waiting = func(ctx context.Context) (int, error) {
		found, err := client.Get(ctx, "relock/lock/"+key+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return 0, err
		}
		return int(found.Count) - 1, nil // one key is the hold
	}
	return b, nil
}
