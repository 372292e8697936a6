package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// A delivery that the new master lacks ends as soon as the client knows of the
// failover, however long its lease is, also if Process has left its function
// behind and renews it no longer. Its task is attempted again. A delivery that
// is there goes on, and its lease stays as it was.
func TestDeliveriesAskTheNewMaster(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	p := locktest.NewTopology(true, r.Master)
	q := queueOf(t, p.Client(t), queue.WithLease(time.Hour))
	ids := map[string][]string{"kept": {"kept", "kept, left behind"}, "lost": {"lost", "lost, left behind"}}
	enqueue(t, q, "", append(ids["kept"], ids["lost"]...)...)
	take := func(state string) map[string]*queue.Delivery {
		one, other := ids[state][0], ids[state][1]
		return map[string]*queue.Delivery{one: receive(t, q, one), other: leaveBehind(t, q)}
	}
	kept := take("kept")
	until := map[string]time.Time{}
	for id, d := range kept {
		require.Equal(t, id, d.ID)
		until[id] = d.ValidUntil()
	}
	r.AwaitCopy()
	r.Disconnect()
	lost := take("lost")
	p.SetMasters(r.Replica)
	for id, d := range lost {
		require.Equal(t, id, d.ID)
		require.ErrorIs(t, testkit.EndedWithin(t, d.Context(), testkit.Patience), relock.ErrLockLost, id)
	}
	other := queueOf(t, p.Client(t))
	for _, id := range ids["lost"] {
		require.NoError(t, receive(t, other, id).Ack(t.Context()))
	}
	for id, d := range kept {
		require.NoError(t, d.Err(), id)
		require.False(t, d.ValidUntil().Before(until[id]), id)
		require.NoError(t, d.Ack(t.Context()), id)
	}
}

// leaveBehind receives a task, and returns its delivery when Process has left
// its function behind.
func leaveBehind(t *testing.T, q *queue.Queue) *queue.Delivery {
	t.Helper()
	got, goOn := make(chan *queue.Delivery, 1), make(chan struct{})
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		got <- d
		<-goOn
		return nil
	}, queue.WithWorkers(1), queue.WithGrace(0))
	t.Cleanup(func() { close(goOn) }) // before Process is waited for
	d := testkit.Next(t, got)
	require.ErrorContains(t, stop(), "due again when their leases end")
	require.NoError(t, d.Err())
	return d
}
