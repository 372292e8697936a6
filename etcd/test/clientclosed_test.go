package test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A client that is closed ends what its Locker does immediately: waits, holds,
// calls and their releases, with an error that says why.
func TestClientIsClosed(t *testing.T) {
	t.Parallel()
	const soonEnough = time.Second // a request has 3 s
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		c := newCluster(t, 1) // a hold stays for its lease
		fair := isFair(opts)
		client := c.client(t)
		l, other := newLocker(t, client, opts...), newLocker(t, c.client(t), opts...)
		hold, taken := lock(t, l, "held"), lock(t, other, "key")
		waits := waiter(limited(t), l, "key")
		soon(t, "the wait is under way", func() bool { return !fair || len(keysOf(t, c.client(t), "key")) == 2 })
		s := testkit.NewStopwatch(t)
		require.NoError(t, client.Close())
		requireClosed := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, relock.ErrClosed)
			require.ErrorContains(t, err, "client")
			require.NotErrorIs(t, err, context.Canceled)
			require.False(t, relock.IsRetryableErr(err))
			s.Within(soonEnough)
		}
		requireClosed(await(t, waits).err)
		requireClosed(hold.Extend(limited(t), 5*time.Second))
		requireClosed(hold.Unlock(limited(t)))
		requireClosed(context.Cause(hold.Context()))
		_, err := l.Lock(limited(t), "key")
		requireClosed(err)
		_, err = l.TryLock(limited(t), "another")
		requireClosed(err)
		requireClosed(l.Close())
		late := newLocker(t, client, opts...)
		_, err = late.Lock(limited(t), "key")
		requireClosed(err)
		unlock(t, taken)
	})
}

// A client whose own context was cancelled still sends releases.
func TestClientContextIsCancelled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		l := newLocker(t, c.clientWith(t, clientv3.Config{Context: ctx}), opts...)
		hold := lock(t, l, "key")
		cancel()
		unlock(t, hold)
		require.Empty(t, keysOf(t, c.client(t), "key"))
	})
}
