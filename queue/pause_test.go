package queue_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// A paused queue delivers nothing, in any process, until it is resumed: then
// idle workers go on soon. What is in flight goes on, and enqueuing too.
func TestPause(t *testing.T) {
	s := redistest.Shared(t)
	q, operator := newQueue(t, s), newQueue(t, s)
	began, goOn := make(chan string, 10), make(chan struct{})
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		if began <- d.ID; d.ID == "flies" {
			<-goOn
		}
		return nil
	}, queue.WithWorkers(2))
	enqueue(t, q, "", "flies")
	id := testkit.Next(t, began)
	require.Equal(t, "flies", id)
	require.NoError(t, operator.Pause(t.Context()))
	require.NoError(t, operator.Pause(t.Context()))
	enqueue(t, q, "k", "1", "2")
	require.NoError(t, put(t.Context(), q, queue.Task{ID: "late", Delay: time.Millisecond}))
	none(t, operator)
	close(goOn)
	eventually(t, operator, "what was in flight is done", func(s queue.Stats) bool {
		return s.InFlight == 0 && s.Idle == 1 && s.Ready == 2 && s.Behind == 1 && s.Paused && s.PausedKeys == 0
	})
	require.Empty(t, began)
	clock := testkit.NewStopwatch(t)
	require.NoError(t, operator.Resume(t.Context()))
	for range 3 {
		testkit.Next(t, began)
	}
	clock.Within(200*time.Millisecond, "an idle worker goes on")
	eventually(t, operator, "all are done", func(s queue.Stats) bool { return isEmpty(s) && !s.Paused })
	require.NoError(t, operator.Resume(t.Context()))
	require.NoError(t, stop())
}

// The tasks of a paused key wait in their order, also a retry, however many
// they are. All others go on.
func TestPauseKey(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s)
	enqueue(t, q, "k", "1", "2", "3")
	first := receive(t, q, "1")
	require.NoError(t, q.PauseKey(t.Context(), "k"))
	require.NoError(t, q.PauseKey(t.Context(), "k"))
	require.NoError(t, first.Nack(t.Context(), 0, nil))
	enqueue(t, q, "k", named(500)...)
	enqueue(t, q, "free", "free")
	require.NoError(t, receive(t, q, "free").Ack(t.Context()))
	none(t, q)
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, queue.Stats{Behind: 503, PausedKeys: 1}, stats)
	require.NoError(t, q.Remove(t.Context(), "2"))
	require.NoError(t, q.Pause(t.Context()))
	require.NoError(t, q.ResumeKey(t.Context(), "k"))
	require.NoError(t, q.ResumeKey(t.Context(), "k"))
	none(t, q)
	require.NoError(t, q.Resume(t.Context()))
	again := receive(t, q, "1")
	require.Equal(t, 2, again.Attempt)
	require.NoError(t, again.Ack(t.Context()))
	require.NoError(t, receive(t, q, "3").Ack(t.Context()))
	require.NoError(t, receive(t, q, "t0").Ack(t.Context()))
}

// A worker that waits goes on soon after its key is resumed.
func TestResumeKeyWakes(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	require.NoError(t, q.PauseKey(t.Context(), "k"))
	began := make(chan string, 10)
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		began <- d.ID
		return nil
	})
	enqueue(t, q, "k", "1", "2")
	eventually(t, q, "they wait", func(s queue.Stats) bool { return s.Behind == 2 && s.Idle == 1 })
	require.Empty(t, began)
	clock := testkit.NewStopwatch(t)
	require.NoError(t, q.ResumeKey(t.Context(), "k"))
	for range 2 {
		testkit.Next(t, began)
	}
	clock.Within(200*time.Millisecond, "the key goes on")
	require.NoError(t, stop())
}

// A process keeps no lock from others for tasks that are paused, and goes on
// with them when they are resumed.
func TestPauseBehindALock(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q, locker := queueOf(t, c), newLocker(t, c)
	began := make(chan string, 10)
	stop := locked(t, s, func(_ context.Context, d *queue.Delivery) error {
		began <- d.ID
		return nil
	})
	h := hold(t, locker, t.Name())
	enqueueUnder(t, q, t.Name(), "1", "2")
	keyed := queue.Task{ID: "keyed", Key: "k", Header: map[string]string{lockHeader: t.Name()}}
	require.NoError(t, put(t.Context(), q, keyed))
	eventually(t, q, "all are behind the lock", func(s queue.Stats) bool { return s.Behind == 3 })
	require.NoError(t, q.PauseKey(t.Context(), "k"))
	require.NoError(t, q.Pause(t.Context()))
	require.NoError(t, h.Unlock(t.Context()))
	eventually(t, q, "they are due", func(s queue.Stats) bool { return s.Ready == 3 })
	require.Empty(t, began)
	require.NoError(t, q.Resume(t.Context()))
	for range 2 {
		testkit.Next(t, began)
	}
	eventually(t, q, "the paused one is left", func(s queue.Stats) bool { return s.Behind == 1 && s.InFlight == 0 })
	info, err := c.Inspect(t.Context(), t.Name())
	require.NoError(t, err)
	require.Zero(t, info.Waiting)
	require.NoError(t, q.ResumeKey(t.Context(), "k"))
	eventually(t, q, "all are done", isEmpty)
	require.NoError(t, stop())
}

// pausedKeys returns the keys that are paused, and since when.
func pausedKeys(t testing.TB, q *queue.Queue) map[string]time.Time {
	t.Helper()
	keys := map[string]time.Time{}
	for paused, err := range q.PausedKeys(t.Context()) {
		require.NoError(t, err)
		require.NotContains(t, keys, paused.Key, "it comes once")
		keys[paused.Key] = paused.Since
	}
	return keys
}

// All paused keys are listed with their times, however many they are, and a
// caller may stop. The queue itself is none of them.
func TestPausedKeys(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s)
	require.Empty(t, pausedKeys(t, q))
	require.NoError(t, q.Pause(t.Context()))
	require.Empty(t, pausedKeys(t, q))
	before := time.Now()
	want := []string{"a/b%\n", "\xff"}
	for i := range 1000 {
		want = append(want, fmt.Sprint("key ", i))
	}
	for _, key := range want {
		require.NoError(t, q.PauseKey(t.Context(), key))
	}
	got := pausedKeys(t, newQueue(t, s))
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(got)))
	requireBetween(t, before, time.Now(), got[want[0]])
	n := 0
	for _, err := range q.PausedKeys(t.Context()) {
		require.NoError(t, err)
		if n++; n == 70 {
			break
		}
	}
	require.Equal(t, 70, n)
	for _, key := range want[1:] {
		require.NoError(t, q.ResumeKey(t.Context(), key))
	}
	require.Equal(t, map[string]time.Time{want[0]: got[want[0]]}, pausedKeys(t, q))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range q.PausedKeys(ctx) {
		require.ErrorIs(t, err, context.Canceled)
	}
	for _, err := range (*queue.Queue)(nil).PausedKeys(t.Context()) {
		require.ErrorIs(t, err, relock.ErrInvalid)
	}
}

// On a Cluster the keys come from the server of their queue.
func TestPausedKeysOfACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 2, 0)
	c, err := relock.NewClientCluster(cluster.Addresses(), "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for i := range 8 {
		q, err := queue.New(fmt.Sprint("queue ", i), c)
		require.NoError(t, err)
		for j := range i {
			require.NoError(t, q.PauseKey(t.Context(), fmt.Sprint(j)))
		}
		require.Len(t, pausedKeys(t, q), i)
	}
}

func TestPauseMistakes(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	q := queueOf(t, c)
	for _, key := range []string{"", "a\x00b", strings.Repeat("k", 513)} {
		require.ErrorIs(t, q.PauseKey(t.Context(), key), relock.ErrInvalid)
		require.ErrorIs(t, q.ResumeKey(t.Context(), key), relock.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, q.Pause(ctx), context.Canceled)
	require.ErrorIs(t, (*queue.Queue)(nil).Resume(t.Context()), relock.ErrInvalid)
	long := strings.Repeat("k", 512)
	require.NoError(t, q.PauseKey(t.Context(), long))
	enqueue(t, q, long, "1")
	none(t, q)
	require.NoError(t, q.ResumeKey(t.Context(), long))
	require.NoError(t, receive(t, q, "1").Ack(t.Context()))
	require.NoError(t, c.Close())
	require.ErrorIs(t, q.Resume(t.Context()), relock.ErrClosed)
}

// A pause that met a fault is made, or its error is one that may pass. It may
// be repeated. No task is lost.
func TestFaultsOfPause(t *testing.T) {
	for name, one := range map[string]struct {
		pause, resume func(*queue.Queue, context.Context) error
	}{
		"queue": {(*queue.Queue).Pause, (*queue.Queue).Resume},
		"key": {
			func(q *queue.Queue, ctx context.Context) error { return q.PauseKey(ctx, "k") },
			func(q *queue.Queue, ctx context.Context) error { return q.ResumeKey(ctx, "k") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(c *faultCell) {
				enqueue(c, c.other, "k", "a", "behind")
				c.meets(script.TaskPause)
				if err := one.pause(c.q, c.Context()); err != nil {
					c.temporary(err)
					require.NoError(c, one.pause(c.other, c.Context()))
				}
				none(c, c.other)
				c.late()
				none(c, c.other)
				c.meets(script.TaskPause)
				if err := one.resume(c.q, c.Context()); err != nil {
					c.temporary(err)
					require.NoError(c, one.resume(c.other, c.Context()))
				}
				require.NoError(c, receive(c, c.other, "a").Ack(c.Context()))
				c.late()
				require.NoError(c, receive(c, c.other, "behind").Ack(c.Context()))
			})
		})
	}
}
