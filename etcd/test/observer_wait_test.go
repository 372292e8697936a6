package test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	etcdlock "github.com/relock-go/relock/etcd"
)

// A call reports that it has waited, also if it did not get the lock.
func TestObserverOfAWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		d := newDiary()
		l := newLocker(t, c.client(t), append(opts, etcdlock.WithObserver(d.observer()))...)
		h, err := l.Lock(named(limited(t), "holder"), "key")
		require.NoError(t, err)
		soon(t, "the call waits before it is cancelled", func() bool {
			short, cancel := context.WithTimeout(named(limited(t), "left"), 50*time.Millisecond)
			defer cancel()
			_, err := l.Lock(short, "key")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return d.done["left"].Waited
		})
		require.False(t, d.done["holder"].Waited)
		ctx, cancel := context.WithCancel(limited(t))
		first := waiter(ctx, l, "key")
		soon(t, "a call waits in memory only, behind the first one", func() bool {
			short, cancel := context.WithTimeout(named(limited(t), "behind"), 50*time.Millisecond)
			defer cancel()
			_, err := l.Lock(short, "key")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return d.done["behind"].Waited
		})
		cancel()
		require.ErrorIs(t, await(t, first).err, context.Canceled)
		unlock(t, h)
	})
}
