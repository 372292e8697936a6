package queue_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// A task whose lock server is away for one process is left to others.
func TestLockWhoseServerIsAway(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q := queueOf(t, c)
	refused := &refusing{Locker: newLocker(t, c), why: relock.ErrReplicas}
	refused.on.Store(true)
	stop := processing(t, q, func(context.Context, *queue.Delivery) error { return errors.New("it runs here") },
		queue.WithLocker(refused, byHeader))
	enqueueUnder(t, q, t.Name(), "a")
	eventually(t, q, "it is released for a moment", func(s queue.Stats) bool { return s.Delayed == 1 })
	stopOther := locked(t, s, func(_ context.Context, d *queue.Delivery) error {
		if d.Attempt != 1 {
			t.Errorf("attempt %d", d.Attempt)
		}
		return nil
	})
	eventually(t, q, "another process runs it", isEmpty)
	require.NoError(t, stop())
	require.NoError(t, stopOther())
}

// A task whose lock has another name by now, as after a deploy, runs under the
// new one.
func TestGateOfAnotherName(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q, locker := queueOf(t, c), newLocker(t, c)
	h := hold(t, locker, t.Name()+"old")
	var renamed atomic.Bool
	worker := newClient(t, s)
	workerLocker := newLocker(t, worker)
	stop := processing(t, queueOf(t, worker), func(ctx context.Context, _ *queue.Delivery) error {
		h, ok := relock.HoldFromContext(ctx, t.Name()+"new")
		if !ok {
			t.Errorf("%v", h)
		}
		return nil
	}, queue.WithLocker(workerLocker, func(queue.Task) string {
		if renamed.Load() {
			return t.Name() + "new"
		}
		return t.Name() + "old"
	}))
	enqueueUnder(t, q, "", "a")
	eventually(t, q, "it is behind the lock", func(s queue.Stats) bool { return s.Behind == 1 })
	renamed.Store(true)
	require.NoError(t, h.Unlock(t.Context()))
	eventually(t, q, "it is done", isEmpty)
	require.NoError(t, stop())
	free, err := locker.TryLock(t.Context(), t.Name()+"old")
	require.NoError(t, err, "the gate has given it back")
	require.NoError(t, free.Unlock(t.Context()))
}

// A lock that cannot be had is no attempt at the task.
func TestLockThatCannotBeHad(t *testing.T) {
	s := redistest.Shared(t)
	log := &testkit.Log{}
	c := newClient(t, s, relock.WithLogger(log.Logger()))
	q := queueOf(t, c, queue.WithMaxAttempts(1))
	stop := processing(t, q, func(context.Context, *queue.Delivery) error { return errors.New("it runs") },
		queue.WithLocker(newLocker(t, c), byHeader))
	enqueueUnder(t, q, strings.Repeat("x", 2000), "a")
	eventually(t, q, "it is due later", func(s queue.Stats) bool { return s.Delayed == 1 })
	require.NoError(t, stop())
	const why = "2000 bytes are above 1024"
	require.Equal(t, 1, log.Lines("level=WARN", "a task is not processed", " id=a ", why), log.String())
	end(t, s, "d", "a")
	require.Equal(t, 1, receive(t, q, "a").Attempt)
}

// A lock that comes later than WithTimeout is no attempt: the function was not
// run.
func TestLockThatComesTooLate(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q := queueOf(t, c, queue.WithMaxAttempts(1))
	slow := &refusing{Locker: newLocker(t, c)}
	slow.on.Store(true)
	stop := processing(t, q, succeeds,
		queue.WithLocker(slow, byHeader), queue.WithTimeout(20*time.Millisecond))
	enqueueUnder(t, q, t.Name(), "a")
	eventually(t, q, "it is released for a moment", func(s queue.Stats) bool { return s.Delayed == 1 })
	slow.on.Store(false)
	eventually(t, q, "it is done", func(s queue.Stats) bool { return isEmpty(s) || s.Dead > 0 })
	require.NoError(t, stop())
	require.Empty(t, reasons(t, q))
}

// A gate whose Locker refuses it for a while logs that, and goes on later.
func TestGateOfALockerThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	log := &testkit.Log{}
	c := newClient(t, s, relock.WithLogger(log.Logger()))
	q, locker := queueOf(t, c), newLocker(t, c)
	refused := &refusing{Locker: locker, why: relock.ErrQueueFull}
	refused.on.Store(true)
	stop := processing(t, q, succeeds, queue.WithLocker(refused, byHeader))
	enqueueUnder(t, q, t.Name(), "a")
	testkit.Eventually(t, testkit.Patience, func() bool {
		return log.Lines("level=WARN", "the lock of tasks cannot be had", " lock="+t.Name()+" ", "wait queue is full") == 1
	}, "it is logged")
	<-time.After(time.Second) // two more tries
	refused.on.Store(false)
	eventually(t, q, "it is done", isEmpty)
	require.NoError(t, stop())
	require.Equal(t, 1, log.Lines("the lock of tasks cannot be had"), "once")
}

// refusing is a Locker whose calls fail while it is on, or, without an error,
// wait for the end of their contexts.
type refusing struct {
	relock.Locker
	why error
	on  atomic.Bool
}

func (r *refusing) refuse(ctx context.Context) error {
	if r.why == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.why
}

func (r *refusing) Lock(ctx context.Context, key string) (relock.Hold, error) {
	if r.on.Load() {
		return nil, r.refuse(ctx)
	}
	return r.Locker.Lock(ctx, key)
}

func (r *refusing) TryLock(ctx context.Context, key string) (relock.Hold, error) {
	if r.on.Load() {
		return nil, r.refuse(ctx)
	}
	return r.Locker.TryLock(ctx, key)
}
