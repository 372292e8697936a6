package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// All idle callers of a queue ask as often as one. What is delayed is received
// when it is due, though the caller that learns of it does not keep the timer.
func TestIdleCallersShareATimer(t *testing.T) {
	s := redistest.StartTCP(t)
	q, p := behindProxy(t, s)
	other := newQueue(t, s)
	receives := faults.Script(script.TaskReceive.SHA)
	const callers = 200
	got := make(chan time.Time, callers)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var results []<-chan error
	for range callers {
		results = append(results, testkit.Async(t, func() error {
			all, err := q.Receive(ctx, 1)
			if err != nil {
				return ended(ctx, err)
			}
			got <- time.Now()
			return all[0].Ack(t.Context())
		}))
	}
	require.True(t, p.Await(receives, callers, testkit.Patience))
	testkit.Eventually(t, testkit.Patience, func() bool {
		before, n := time.Now(), p.Count(receives)
		require.True(t, p.Await(receives, n+5, testkit.Patience))
		return time.Since(before) >= 2*time.Second
	}, "the last callers have asked for the first time, and all are idle")

	clock := testkit.NewStopwatch(t)
	require.NoError(t, put(t.Context(), other, queue.Task{Delay: 300 * time.Millisecond}))
	testkit.Next(t, got)
	clock.Within(400*time.Millisecond, "it is due in 300 ms")
	cancel()
	testkit.AllWithin(t, results, testkit.Patience)
}
