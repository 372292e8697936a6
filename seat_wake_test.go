package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/testkit"
)

// A wake-up that a call did not come to use, as its context ended, goes to the one that has its place next: the lock is reserved for it.
func TestWakeUpOfACallThatLeaves(t *testing.T) {
	t.Parallel()
	const poll = 7 * time.Second
	q := newTransferBench(t)
	h := q.take(q.clients[1])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, second := q.sits(ctx, 0, WithPollInterval(poll)), q.sits(t.Context(), 1, WithPollInterval(poll))
	c := q.clients[0]
	owner := c.engine.Queue.State().Lines[q.key].Waiters[0].Attempt.(interface{ OwnerID() string }).OwnerID()
	goOn := c.engine.Block(lease.OwnerKey{Lock: queueKey, ID: owner, Family: lockspec.ReentrantFamily}) // as another call of its owner does
	q.unlock(h)
	testkit.Eventually(t, testkit.Patience, func() bool { return !q.restsInRedis(c) }, "is woken")
	cancel()
	require.ErrorIs(t, first.end(), context.Canceled)
	goOn()
	start := time.Now()
	next := second.granted()
	require.Less(t, time.Since(start), poll/3)
	q.unlock(next)
	q.requireNothingLeft(poll)
}
