package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// Process without a server is logged, and its end.
func TestProcessWithoutAServerIsLogged(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	p := faults.Start(t, s.Network, s.Address)
	log := &testkit.Log{}
	q := queueOf(t,
		newClient(t, &redistest.Server{Network: p.Network, Address: p.Address}, relock.WithLogger(log.Logger())))
	p.Refuse()
	ctx, cancel := context.WithCancel(t.Context())
	result := testkit.Async(t, func() error {
		return q.Process(ctx, func(context.Context, *queue.Delivery) error { return nil })
	})
	testkit.Eventually(t, testkit.Patience, func() bool {
		return log.Lines("level=WARN", "no usable server for waiting calls", " server="+p.Address+" ",
			"connection refused") == 1
	}, "it is logged")
	p.Accept()
	testkit.Eventually(t, testkit.Patience, func() bool {
		return log.Lines("level=INFO", "waiting calls have a usable server again") == 1
	}, "so is its end")
	cancel()
	require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
}

// A line that nobody knows ends Process after a minute without any success, as
// it may be a mistake in the set-up. Until then it is a server that is away.
func TestProcessEndsAtALineThatRepeats(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		log := &testkit.Log{}
		dialer := relock.WithDialer(redistest.DialProxy("upstream failure"))
		c, err := relock.NewClient("tcp", "proxy:6379", "", dialer, relock.WithLogger(log.Logger()))
		require.NoError(t, err)
		q, err := queue.New("q", c)
		require.NoError(t, err)
		start := time.Now()
		err = q.Process(t.Context(), func(context.Context, *queue.Delivery) error { return nil })
		took := time.Since(start)
		require.NoError(t, c.Close())
		require.ErrorContains(t, err, "upstream failure (the same ")
		require.False(t, relock.IsRetryableErr(err))
		require.GreaterOrEqual(t, took, time.Minute)
		require.Less(t, took, time.Minute+5*time.Second)
		require.Positive(t, log.Lines("level=WARN", "no usable server", "upstream failure"), log)
	})
}
