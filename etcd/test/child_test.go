package test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	children "github.com/relock-go/relock/internal/test/faults"

	etcdlock "github.com/relock-go/relock/etcd"
)

// newChildLocker makes a Locker in a child process from its arguments:
// endpoints and mode.
func newChildLocker(self *children.Self, more ...etcdlock.Option) (*etcdlock.Locker, func(), error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(self.Args[0], ","), Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	opts := slices.Clone(modes[self.Args[1]])
	opts = append(opts, more...)
	l, err := etcdlock.NewLocker(client, opts...)
	return l, func() { _ = l.Close(); _ = client.Close() }, err
}

// holdRole takes a lock and keeps it until the test says otherwise.
func holdRole(self *children.Self) error { return holdWith(self, etcdlock.WithTTL(brief)) }

func holdWith(self *children.Self, opts ...etcdlock.Option) error {
	l, closeAll, err := newChildLocker(self, opts...)
	if err != nil {
		return err
	}
	defer closeAll()
	hold, err := l.Lock(context.Background(), "key")
	if err != nil {
		return err
	}
	self.Emit("locked", children.Stamp(hold.ValidUntil()))
	for {
		select {
		case <-hold.Context().Done():
			self.Emit("lost", children.Now())
			<-self.Commands
			return nil
		case _, ok := <-self.Commands:
			if !ok {
				return nil
			}
			self.Emit("until", children.Stamp(hold.ValidUntil()), hold.Err() == nil)
		}
	}
}

// workersRole runs ten goroutines. Each holds the lock once for a while, and
// reports from when to when.
func workersRole(self *children.Self) error {
	l, closeAll, err := newChildLocker(self)
	if err != nil {
		return err
	}
	defer closeAll()
	keep, err := time.ParseDuration(self.Args[2])
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	for n := range 10 {
		group.Go(func() {
			if err := work(self, l, keep); err != nil {
				self.Emit("failed", n, err)
			}
		})
	}
	group.Wait()
	self.Emit("done")
	<-self.Commands
	return nil
}

func work(self *children.Self, l *etcdlock.Locker, keep time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hold, err := l.Lock(ctx, "key")
	if err != nil {
		return err
	}
	from := children.Now()
	time.Sleep(keep)
	if hold.Err() != nil {
		return errors.New("lost")
	}
	to := children.Now()
	err = hold.Unlock(ctx)
	self.Emit("held", from, to, hold.Fence())
	return err
}
