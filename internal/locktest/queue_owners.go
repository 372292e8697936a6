package locktest

import (
	"context"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/testkit"
)

// WaitToo is waitNext for a client that waits already: where the lock is unfair, in memory.
func (q *QueueBench) WaitToo(ctx context.Context, n int, c *relock.Client, opts ...relock.LockOption) *Waiting {
	q.Helper()
	if q.Fair {
		return q.WaitNext(ctx, n, c, opts...)
	}
	sat := WaitingIn(c, q.Key)
	w := q.Wait(ctx, c, opts...)
	testkit.Eventually(q, testkit.Patience, func() bool { return WaitingIn(c, q.Key) == sat+1 && q.RestsInRedis(c) }, "sits")
	return w
}
