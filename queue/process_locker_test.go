package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

// A task runs under its lock. While others have that, it waits, uncounted.
func TestProcessWithLocker(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q := queueOf(t, c, queue.WithMaxAttempts(1))
	locker, err := relock.NewLocker(c)
	require.NoError(t, err)
	name := t.Name() + "account 7"
	hold, err := locker.Lock(t.Context(), name)
	require.NoError(t, err)
	var attempts, inside atomic.Int64
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		attempts.Store(int64(d.Attempt))
		_, err := locker.TryLock(t.Context(), name)
		if !errors.Is(err, relock.ErrLockAcquiredByOthers) {
			return fmt.Errorf("not locked: %w", err)
		}
		return relock.TryDo(ctx, locker, name, func(context.Context) error { // adds a level
			inside.Add(1)
			return nil
		})
	}, queue.WithLocker(locker, func(t queue.Task) string { return t.Header["lock"] }))
	require.NoError(t, put(t.Context(), q, queue.Task{ID: "a", Header: map[string]string{"lock": name}}))
	eventually(t, q, "it waits for its lock", func(s queue.Stats) bool { return s.Behind == 1 })
	require.Zero(t, inside.Load())
	require.NoError(t, hold.Unlock(t.Context()))
	eventually(t, q, "it is done", isEmpty)
	require.NoError(t, stop())
	require.Equal(t, int64(1), inside.Load())
	require.Equal(t, int64(1), attempts.Load())
}

// A task whose lock was lost is not acknowledged, though its function returns
// nil.
func TestProcessLosesLock(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q := queueOf(t, c, queue.WithMaxAttempts(1))
	locker, err := relock.NewLocker(c)
	require.NoError(t, err)
	name := t.Name() + "lock"
	stop := processing(t, q, func(ctx context.Context, _ *queue.Delivery) error {
		err := c.ForceUnlock(t.Context(), name, "")
		<-ctx.Done()
		return err
	}, queue.WithLocker(locker, func(queue.Task) string { return name }))
	enqueue(t, q, "", "a")
	eventually(t, q, "it has failed", func(s queue.Stats) bool { return s.Dead == 1 })
	require.NoError(t, stop())
}
