package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// behindProxy returns a queue whose client is behind a proxy, and the proxy.
func behindProxy(t *testing.T, s *redistest.Server, opts ...queue.Option) (*queue.Queue, *faults.Proxy) {
	t.Helper()
	for _, one := range []*script.TaskScript{
		script.TaskEnqueue, script.TaskReceive, script.TaskSettle, script.TaskRenew, script.TaskRemove,
	} {
		s.Do(t, "SCRIPT", "LOAD", one.Source)
	}
	p := faults.Start(t, s.Network, s.Address)
	return queueOf(t, newClient(t, &redistest.Server{Network: p.Network, Address: p.Address}), opts...), p
}

// A settle that was executed, whose answer was lost, and whose lease has ended
// since, is neither lost nor confirmed.
func TestSettleWithoutAnswerAtTheEnd(t *testing.T) {
	s := redistest.StartTCP(t)
	for name, settle := range map[string]func(context.Context, *queue.Delivery) error{
		"Ack":        func(ctx context.Context, d *queue.Delivery) error { return d.Ack(ctx) },
		"Nack":       func(ctx context.Context, d *queue.Delivery) error { return d.Nack(ctx, time.Hour, nil) },
		"Release":    func(ctx context.Context, d *queue.Delivery) error { return d.Release(ctx) },
		"DeadLetter": func(ctx context.Context, d *queue.Delivery) error { return d.DeadLetter(ctx, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var outcomes []queue.Outcome
			const lease = 1500 * time.Millisecond
			q, p := behindProxy(t, s, queue.WithLease(lease), queue.WithObserver(queue.Observer{
				Finished: func(_ context.Context, e queue.Finished) { outcomes = append(outcomes, e.Outcome) },
			}))
			p.On(faults.Script(script.TaskRenew.SHA), faults.Every, faults.ErrorLine("LOADING soon"))
			settles := faults.Script(script.TaskSettle.SHA)
			p.On(settles, 1, faults.DropAnswer)
			enqueue(t, q, "", "a")
			d := receive(t, q, "a")
			time.Sleep(time.Until(d.ValidUntil()) - lease/9) // almost to its end
			err := settle(t.Context(), d)
			require.ErrorIs(t, err, relock.ErrUnconfirmed)
			require.NotErrorIs(t, err, relock.ErrLockLost)
			require.Equal(t, []queue.Outcome{queue.Unconfirmed}, outcomes)
			stats, err := q.Stats(t.Context())
			require.NoError(t, err)
			require.Zero(t, stats.InFlight, "it was executed")
		})
	}
}

// A removal that was sent twice, and found nothing, may have removed the task
// or not.
func TestRemoveSentTwice(t *testing.T) {
	s := redistest.StartTCP(t)
	q, p := behindProxy(t, s)
	removals := faults.Script(script.TaskRemove.SHA)
	for _, id := range []string{"there", "never there"} {
		enqueue(t, q, "", "there")
		p.On(removals, 1, faults.CutAfter)
		err := q.Remove(t.Context(), id)
		require.ErrorIs(t, err, relock.ErrUnconfirmed)
		require.NotErrorIs(t, err, queue.ErrNotFound)
		require.ErrorContains(t, err, id)
	}
	require.NoError(t, q.Remove(t.Context(), "there"))
	require.ErrorIs(t, q.Remove(t.Context(), "there"), queue.ErrNotFound)
}

// With WithUnique, a task that was done between two copies of its Enqueue is no
// duplicate.
func TestUniqueEnqueueSentTwice(t *testing.T) {
	s := redistest.StartTCP(t)
	unique := queue.WithUnique(time.Hour)
	q, p := behindProxy(t, s, unique)
	other := newQueue(t, s, unique)
	open := make(chan struct{})
	puts := faults.Script(script.TaskEnqueue.SHA)
	p.On(puts, 1, faults.CutAfter)
	p.On(puts, 2, faults.DelayRequestUntil(open))
	result := testkit.Async(t, func() error { return put(t.Context(), q, queue.Task{ID: "a"}) })
	require.NoError(t, receive(t, other, "a").Ack(t.Context()))
	close(open)
	err := testkit.ResultWithin(t, result, testkit.Patience)
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.NotErrorIs(t, err, queue.ErrDuplicate)
	require.ErrorContains(t, err, `["a"]: not confirmed: sent twice`)
	require.NotContains(t, err.Error(), "release")
	var e *queue.EnqueueError
	require.ErrorAs(t, err, &e)
	require.Equal(t, []string{"a"}, e.Unknown)
	require.Empty(t, e.Queued)
	require.ErrorIs(t, put(t.Context(), q, queue.Task{ID: "a"}), queue.ErrDuplicate)
}
