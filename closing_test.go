package relock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Close takes its own calls out of the queue before it gives the lock back: it goes to whoever is behind them.
func TestReleaseOnCloseBesideWaitsOfItsOwn(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 1)
		closing := sibling(t, q.server, q.clients[0], WithReleaseOnClose())
		q.take(closing)
		const poll = 5 * time.Second // what is reserved for it would stay reserved for four times as long
		own := q.waitNext(context.Background(), 0, closing, WithPollInterval(poll))
		q.awaitHeard(closing)
		next := q.waitNext(context.Background(), 1, q.clients[0])
		q.awaitHeard(q.clients[0])
		start := time.Now()
		require.NoError(t, closing.Close())
		require.ErrorIs(t, own.end(), ErrClosed)
		h := next.granted()
		require.Less(t, next.at.Sub(start), poll)
		q.unlock(h)
		q.requireNothingLeft(poll)
	})
}

// What the retrier has not sent yet, Close sends.
func TestReleaseOnCloseOfACleanUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	log := new(logBuffer)
	c := newTestClient(t, s, WithReleaseOnClose(), log.option())
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	leaseOf(h).Release(time.Now().Add(time.Hour))
	require.NoError(t, c.Close())
	require.Equal(t, int64(0), s.Do(t, "EXISTS", keyOf(c, "k")))
	require.Empty(t, log.String(), "told of as not confirmed")
}

// Clients that are closed at the same time give all nodes of a RedLock back, also the one whose part another one's Close has ended.
func TestReleaseOnCloseOfARedLock(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3), WithReleaseOnClose())
	h, err := b.lock(b.clients).Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(membersOf(h)) == 3 }, "all nodes grant it")
	last := b.clients[2]
	var others []*lease.Lease // to one of them its Close comes first, but for one time in 21
	for i := range 20 {
		other, err := NewRedisLock(fmt.Sprint("other", i), last).Acquire(t.Context())
		require.NoError(t, err)
		others = append(others, leaseOf(other))
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
	<-last.engine.Life.Done()
	for _, c := range b.clients[:2] {
		require.NoError(t, c.Close())
	}
	require.ErrorIs(t, h.Err(), ErrClosed)
	goOn()
	require.NoError(t, testkit.ResultWithin(t, closed, testkit.Patience))
	require.Zero(t, b.holding())
}
