package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// logged returns a queue whose log the test reads.
func logged(t *testing.T, s *redistest.Server, opts ...queue.Option) (*queue.Queue, *testkit.Log) {
	t.Helper()
	log := &testkit.Log{}
	return queueOf(t, newClient(t, s, relock.WithLogger(log.Logger())), opts...), log
}

// Each failed attempt is logged, and each dead letter, with what finds the task
// and without its payload.
func TestFailuresAreLogged(t *testing.T) {
	q, log := logged(t, redistest.Shared(t),
		queue.WithMaxAttempts(2), queue.WithBackoff(func(int, error) time.Duration { return 0 }))
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		switch d.ID {
		case "fails":
			return errors.New("broken")
		case "permanent":
			return queue.Permanent(errors.New("hopeless"))
		}
		return nil
	})
	enqueue(t, q, "k", "fails", "works")
	enqueue(t, q, "", "permanent")
	eventually(t, q, "all have ended", func(s queue.Stats) bool { return isEmpty(s) && s.Dead == 2 })
	require.NoError(t, stop())
	about := " queue=" + t.Name() + " id="
	require.Equal(t, 1,
		log.Lines("level=INFO", "an attempt at a task failed", about+"fails key=k attempt=1 reason=broken"), log.String())
	require.Equal(t, 1,
		log.Lines("level=WARN", "a task is a dead letter", about+"fails key=k attempt=2 reason=broken"), log.String())
	require.Equal(t, 1,
		log.Lines("level=WARN", "a task is a dead letter", about+`permanent key="" attempt=1 reason=hopeless`), log.String())
	require.Equal(t, 3, log.Lines("relock: "), "nothing is logged of what works: %s", log.String())
	require.NotContains(t, log.String(), "of fails")
}

// What is settled by hand is logged likewise. What is not settled is no failed
// attempt: the caller has the error.
func TestSettlesAreLogged(t *testing.T) {
	q, log := logged(t, redistest.Shared(t))
	enqueue(t, q, "", "a")
	d := receive(t, q, "a")
	require.NoError(t, d.Nack(t.Context(), 0, errors.New("broken")))
	require.ErrorIs(t, d.Nack(t.Context(), 0, errors.New("too late")), relock.ErrNotHeld)
	d = receive(t, q, "a")
	require.NoError(t, d.Release(t.Context()))
	require.NoError(t, receive(t, q, "a").DeadLetter(t.Context(), nil))
	require.Equal(t, 1, log.Lines("level=INFO", "an attempt at a task failed", "reason=broken"), log.String())
	require.Equal(t, 1, log.Lines("level=WARN", "a task is a dead letter", `reason=""`), log.String())
	require.Equal(t, 2, log.Lines("relock: "), log.String())
}

// An attempt whose lease was lost is logged by Process, which has no caller for
// the error.
func TestLostAttemptIsLogged(t *testing.T) {
	s := redistest.Start(t)
	q, log := logged(t, s, queue.WithLease(time.Second))
	stop := processing(t, q, func(ctx context.Context, _ *queue.Delivery) error {
		<-ctx.Done()
		return nil
	})
	enqueue(t, q, "k", "a")
	eventually(t, q, "it runs", func(s queue.Stats) bool { return s.InFlight == 1 })
	s.Do(t, "FLUSHALL")
	testkit.Eventually(t, testkit.Patience, func() bool {
		return log.Lines("level=INFO", "an attempt at a task lost its lease", " id=a key=k attempt=1 ", "lock lost") == 1
	}, "it is logged")
	require.NoError(t, stop())
}

// A dead letter that nobody has settled, because its worker is gone, is logged
// by the receive that has found it.
func TestDeadLetterWithoutWorkerIsLogged(t *testing.T) {
	s := redistest.Shared(t)
	s.AwaitUp(t, 1)
	q, log := logged(t, s, queue.WithMaxInterruptions(1), queue.WithLease(time.Second))
	enqueue(t, q, "k", "a", "b")
	_ = receive(t, newQueue(t, s), "a")
	end(t, s, "l", "a")
	require.NoError(t, receive(t, q, "b").Ack(t.Context()))
	const about, why = " id=a key=k attempt=0 interruptions=1 ", `reason="its worker was gone"`
	require.Equal(t, 1, log.Lines("level=WARN", "a task is a dead letter", about, why), log.String())
	require.Equal(t, map[string]string{"a": "interrupted 1 times: its worker was gone"}, reasons(t, q))
}
