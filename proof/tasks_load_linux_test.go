package proof

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// loadBench is a queue whose tasks run under locks, and a server that only they
// use.
type loadBench struct {
	*testing.T
	server *redistest.Server
	conn   redis.Conn
	q      *queue.Queue
	locker relock.Locker

	ran  atomic.Int64
	mu   sync.Mutex
	late []time.Duration // of free tasks
}

// TestTasksUnderLocksLoad prints what tasks under locks get, and what they
// cost: beside callers that wait for the same lock, and beside free tasks while
// many wait for a lock that others have.
func TestTasksUnderLocksLoad(t *testing.T) {
	b := &loadBench{T: t, server: redistest.Start(t)}
	b.conn = b.server.Dial(t)
	t.Cleanup(func() { _ = b.conn.Close() })
	c := newParentClient(t, b.server)
	var err error
	b.locker, err = relock.NewLocker(c)
	require.NoError(t, err)
	b.q, err = queue.New(tasksQueue, c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	result := testkit.Async(t, func() error {
		return b.q.Process(ctx, b.run, queue.WithLocker(b.locker, func(t queue.Task) string { return t.Header["lock"] }))
	})
	b.besideCallers(4)
	for _, blocked := range pick([]int{0, 100, 5000}, []int{0, 100}) {
		b.besideBlocked(blocked)
	}
	cancel()
	require.NoError(t, testkit.ResultWithin(t, result, patience))
}

// run is the function of a task: a free one notes how late it is.
func (b *loadBench) run(_ context.Context, d *queue.Delivery) error {
	b.ran.Add(1)
	if at, err := time.Parse(time.RFC3339Nano, d.Header["at"]); err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.late = append(b.late, time.Since(at))
		return nil
	}
	time.Sleep(2 * time.Millisecond)
	return nil
}

// besideCallers lets callers take turns with tasks that never run out.
func (b *loadBench) besideCallers(callers int) {
	length := pick(60*time.Second, time.Second)
	lock := "shared"
	var ids []queue.Task
	for i := range pick(20_000, 500) {
		ids = append(ids, queue.Task{ID: fmt.Sprint("shared", i), Header: map[string]string{"lock": lock}})
	}
	require.NoError(b, putTasks(b.Context(), b.q, ids...))
	ctx, cancel := context.WithTimeout(b.Context(), length)
	defer cancel()
	var grants atomic.Int64
	var group sync.WaitGroup
	before := b.ran.Load()
	for range callers {
		l, err := relock.NewLocker(newParentClient(b.T, b.server))
		require.NoError(b, err)
		group.Go(func() {
			for ctx.Err() == nil {
				if relock.Do(ctx, l, lock, func(context.Context) error { time.Sleep(2 * time.Millisecond); return nil }) == nil {
					grants.Add(1)
				}
			}
		})
	}
	<-ctx.Done()
	ran := b.ran.Load() - before
	group.Wait()
	b.Logf("%v: %d tasks ran under the lock beside %d grants of %d callers", length, ran, grants.Load(), callers)
	require.Greater(b, ran*int64(callers)*3, grants.Load(), "a fair share is one grant in five")
	eventuallyEmpty(b.T, b.q)
}

// besideBlocked measures free tasks while so many wait for a lock.
func (b *loadBench) besideBlocked(blocked int) {
	lock := fmt.Sprint("busy", blocked)
	hold, err := b.locker.Lock(b.Context(), lock)
	require.NoError(b, err)
	var tasks []queue.Task
	for i := range blocked {
		tasks = append(tasks, queue.Task{ID: fmt.Sprint(lock, "-", i), Header: map[string]string{"lock": lock}})
	}
	if blocked > 0 {
		require.NoError(b, putTasks(b.Context(), b.q, tasks...))
	}
	testkit.Eventually(b, patience, func() bool {
		s, err := b.q.Stats(b.Context())
		return err == nil && s.Behind == blocked
	}, "they are behind the lock")
	const idle = 2 * time.Second
	before := b.commands()
	time.Sleep(idle)
	commands := float64(b.commands()-before) / idle.Seconds()
	b.late = nil
	free := pick(1000, 100)
	for i := range free {
		at := time.Now().Format(time.RFC3339Nano)
		task := queue.Task{ID: fmt.Sprint("free", i), Header: map[string]string{"at": at}}
		require.NoError(b, putTasks(b.Context(), b.q, task))
	}
	testkit.Eventually(b, patience, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.late) == free
	}, "the free ones have run")
	slices.Sort(b.late)
	b.Logf("%5d blocked: %4.0f commands/s idle, free tasks are late by %v, p99 %v",
		blocked, commands, b.late[free/2], b.late[free*99/100])
	require.NoError(b, hold.Unlock(b.Context()))
	eventuallyEmpty(b.T, b.q)
}

// commands is how many commands scripts and clients have executed.
func (b *loadBench) commands() int64 { return b.server.Info(b, "stats", "total_commands_processed") }

func eventuallyEmpty(t *testing.T, q *queue.Queue) {
	t.Helper()
	testkit.Eventually(t, 10*patience, func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.Ready+s.Delayed+s.InFlight+s.Behind == 0
	}, "all are done")
}
