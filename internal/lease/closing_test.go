package lease_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Close takes its own calls out of the queue before it gives the lock back: it goes to whoever is behind them.
func TestReleaseOnCloseBesideWaitsOfItsOwn(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 1)
		closing := locktest.Sibling(t, q.Server, q.Clients[0], relock.WithReleaseOnClose())
		q.Take(closing)
		const poll = 5 * time.Second // what is reserved for it would stay reserved for four times as long
		own := q.WaitNext(context.Background(), 0, closing, relock.WithPollInterval(poll))
		q.AwaitHeard(closing)
		next := q.WaitNext(context.Background(), 1, q.Clients[0])
		q.AwaitHeard(q.Clients[0])
		start := time.Now()
		require.NoError(t, closing.Close())
		require.ErrorIs(t, own.End(), relock.ErrClosed)
		h := next.Granted()
		require.Less(t, next.At.Sub(start), poll)
		q.Unlock(h)
		q.RequireNothingLeft(poll)
	})
}

// What the retrier has not sent yet, Close sends.
func TestReleaseOnCloseOfACleanUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	log := new(locktest.LogBuffer)
	c := locktest.NewTestClient(t, s, relock.WithReleaseOnClose(), log.Option())
	h, err := relock.NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	locktest.LeaseOf(h).Release(time.Now().Add(time.Hour))
	require.NoError(t, c.Close())
	require.Equal(t, int64(0), s.Do(t, "EXISTS", locktest.KeyOf(c, "k")))
	require.Empty(t, log.String(), "told of as not confirmed")
}

// Clients that are closed at the same time give all nodes of a RedLock back, also the one whose part another one's Close has ended.
func TestReleaseOnCloseOfARedLock(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3), relock.WithReleaseOnClose())
	h, err := b.Lock(b.Clients).Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(locktest.MembersOf(h)) == 3 }, "all nodes grant it")
	last := b.Clients[2]
	var others []*lease.Lease // to one of them its Close comes first, but for one time in 21
	for i := range 20 {
		other, err := relock.NewRedisLock(fmt.Sprint("other", i), last).Acquire(t.Context())
		require.NoError(t, err)
		others = append(others, locktest.LeaseOf(other))
	}
	var thaws []func()
	for _, l := range others {
		thaws = append(thaws, l.Freeze())
	}
	goOn := sync.OnceFunc(func() {
		for _, thaw := range thaws {
			thaw()
		}
	})
	closed := testkit.Async(t, last.Close)
	t.Cleanup(goOn) // before that is waited for
	<-locktest.Engine(last).Life.Done()
	for _, c := range b.Clients[:2] {
		require.NoError(t, c.Close())
	}
	require.ErrorIs(t, h.Err(), relock.ErrClosed)
	goOn()
	require.NoError(t, testkit.ResultWithin(t, closed, testkit.Patience))
	require.Zero(t, b.Holding())
}
