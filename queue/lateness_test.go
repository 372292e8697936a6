package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// starter is an idle worker, and a producer of tasks for it.
type starter struct {
	testing.TB
	server   *redistest.Server
	producer *queue.Queue
	began    chan struct{}
}

func newStarter(t *testing.T) *starter {
	t.Helper()
	s := redistest.Start(t)
	return &starter{TB: t, server: s, producer: newQueue(t, s), began: make(chan struct{}, 1)}
}

// work runs a worker. It returns when that is idle.
func (s *starter) work() (stop func() error) {
	s.Helper()
	stop = processing(s, newQueue(s, s.server), func(context.Context, *queue.Delivery) error {
		s.began <- struct{}{}
		return nil
	})
	eventually(s, s.producer, "it is idle", func(s queue.Stats) bool { return s.Idle == 1 })
	return stop
}

// requireStart requires that a task begins within the limit.
func (s *starter) requireStart(limit time.Duration) {
	s.Helper()
	clock := testkit.NewStopwatch(s)
	require.NoError(s, put(s.Context(), s.producer, queue.Task{}))
	testkit.Next(s, s.began)
	clock.Within(limit, "a task begins")
	eventually(s, s.producer, "it is done", isEmpty)
}

// Workers that have stopped keep no task waiting.
func TestTasksStartAfterStops(t *testing.T) {
	s := newStarter(t)
	for range 60 {
		require.NoError(t, s.work()())
	}
	stop := s.work()
	for range 20 {
		s.requireStart(locktest.NotifyLimit)
	}
	require.NoError(t, stop())
}

// Workers that were killed keep one task waiting until an idle worker asks,
// which it does once a second. Then it is known to live, and begins each task
// immediately.
func TestTasksStartAfterKills(t *testing.T) {
	s := newStarter(t)
	stop := s.work()
	const killed = 2000
	entries := []any{"relock:queue:{" + t.Name() + "}:i"}
	for i := range killed {
		entries = append(entries, time.Now().UnixMicro(), fmt.Sprint("killed:", i))
	}
	require.Equal(t, int64(killed), s.server.Do(t, "ZADD", entries...))
	s.requireStart(time.Second + locktest.NotifyLimit)
	for range 20 {
		s.requireStart(locktest.NotifyLimit)
	}
	require.NoError(t, stop())
}
