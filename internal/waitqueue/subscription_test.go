package waitqueue

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/tasks"
)

// newTestQueue returns a queue on a pool of the server, without locks.
func newTestQueue(t testing.TB, s *redistest.Server) *Queue {
	t.Helper()
	d := driver.NewPool(&driver.Config{
		Network: s.Network, Address: s.Address, Password: new(string),
		MaxIdle: 1, IdleTimeout: time.Minute, DialTimeout: 5 * time.Second, CommandTimeout: 3 * time.Second,
	})
	id, err := lockspec.NewIdentity()
	require.NoError(t, err)
	life, end := context.WithCancel(context.Background())
	group := &tasks.Group{}
	retrier := background.NewRetrier(background.NewWorker(d, group, life.Done()), slog.New(slog.DiscardHandler), time.Second)
	q := New(Host{Identity: id, Prefix: "test:", Driver: d, Tasks: group, Life: life, Logger: slog.New(slog.DiscardHandler), Retrier: retrier})
	t.Cleanup(func() {
		end()
		retrier.Close()
		q.Close()
		require.NoError(t, d.Close())
		group.WaitFor(time.Second)
	})
	return q
}

// When a subscription comes, and when it goes, waiting calls for RedLocks look
// again: what happened before reached nobody.
func TestSubscriptionMakesQuorumCallsLook(t *testing.T) {
	t.Parallel()
	q := newTestQueue(t, redistest.Shared(t))
	notified := make(chan struct{}, 1)
	defer q.Unlisten(q.Listen(func() { notified <- struct{}{} }))
	for _, change := range []func(){q.feed.confirmed, func() { q.feed.lost(driver.ErrTimeout) }} {
		change()
		select {
		case <-notified:
		case <-time.After(5 * time.Second):
			require.FailNow(t, "nobody was notified")
		}
	}
}
