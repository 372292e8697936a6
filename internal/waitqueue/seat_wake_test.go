package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// A wake-up that a call did not come to use, as its context ended, goes to the one that has its place next: the lock is reserved for it.
func TestWakeUpOfACallThatLeaves(t *testing.T) {
	t.Parallel()
	const poll = 7 * time.Second
	q := locktest.NewTransferBench(t)
	h := q.Take(q.Clients[1])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, second := q.Sits(ctx, 0, relock.WithPollInterval(poll)), q.Sits(t.Context(), 1, relock.WithPollInterval(poll))
	c := q.Clients[0]
	owner := locktest.Engine(c).Queue.State().Lines[q.Key].Waiters[0].Attempt.(interface{ OwnerID() string }).OwnerID()
	goOn := locktest.Engine(c).Block(lease.OwnerKey{Lock: locktest.QueueKey, ID: owner, Family: lockspec.ReentrantFamily}) // as another call of its owner does
	q.Unlock(h)
	testkit.Eventually(t, testkit.Patience, func() bool { return !q.RestsInRedis(c) }, "is woken")
	cancel()
	require.ErrorIs(t, first.End(), context.Canceled)
	goOn()
	start := time.Now()
	next := second.Granted()
	require.Less(t, time.Since(start), poll/3)
	q.Unlock(next)
	q.RequireNothingLeft(poll)
}
