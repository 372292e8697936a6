package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

const (
	tasksQueue = "tasks"
	tasksLease = 3 * time.Second
)

// keptLease is the lease of a delivery that is renewed while its slot moves.
const keptLease = 5 * time.Second

// clusterTasks is a task queue of a Cluster, with workers in several clients.
type clusterTasks struct {
	*testing.T
	cluster *redistest.Cluster
	name    string
	queue   *queue.Queue // of the producer

	mu   sync.Mutex
	runs map[string][]*taskRun // by id
	last int
}

// taskRun is one run of the function of a task.
type taskRun struct {
	from, until time.Time
	fence       int64
	acked       error // of Ack
}

// Workers of a task queue go on while its slot moves, and while its master is
// killed or hangs. Each task is done once while nothing fails, in the order of
// its key. After a failover a task is done again only if the old master may
// have lost its acknowledgement. Idle workers are notified of a task, and a
// delivery is renewed all the time.
func TestTasksOnACluster(t *testing.T) {
	t.Parallel()
	together(t, locktest.MasterEnds, func(t *testing.T, end func(*redistest.Server, testing.TB)) {
		s := newClusterTasks(t)
		kept, taken := s.keep(), time.Now()
		slot := s.cluster.SlotOf(t, s.name)
		var took []time.Duration
		for i := range pick(20, 3) {
			stop := s.produce(fmt.Sprint("move", i))
			to := otherThan(t, s.cluster, s.cluster.Master(t, slot))
			s.cluster.MoveSlotSlowly(t, slot, to, time.Duration(i%3)*20*time.Millisecond)
			stop()
			s.awaitDone()
			took = append(took, s.wakeUp())
		}
		s.requireOnce()
		time.Sleep(time.Until(taken.Add(keptLease))) // it has lived on by renewals
		require.NoError(t, kept.Ack(t.Context()))
		for i := range pick(20, 1) {
			stop := s.produce(fmt.Sprint("before", i))
			old := s.cluster.Master(t, slot)
			stop()
			s.awaitCopied(old)
			failed := time.Now()
			end(old, t)
			stop = s.produce(fmt.Sprint("during", i))
			s.cluster.AwaitSuccessor(t, old)
			stop()
			s.awaitDone()
			took = append(took, s.wakeUp())
			s.cluster.Return(t, old)
			s.requireAgainOnly(failed)
		}
		slices.Sort(took)
		t.Logf("%d tasks, %d runs again; idle worker: start after %v, at most %v",
			len(s.runs), s.again(), took[len(took)/2], took[len(took)-1])
		require.Less(t, took[len(took)/2], locktest.NotifyLimit)
	})
}

func newClusterTasks(t *testing.T) *clusterTasks {
	t.Helper()
	s := &clusterTasks{T: t, cluster: redistest.StartCluster(t, 3, 1), runs: map[string][]*taskRun{}}
	s.name = s.cluster.NameAt(t, s.cluster.Servers[0], "tasks")
	s.queue = s.open(s.name)
	ctx, cancel := context.WithCancel(t.Context())
	var workers []<-chan error
	for range competing {
		q := s.open(s.name)
		workers = append(workers, testkit.Async(t, func() error { return q.Process(ctx, s.run, queue.WithWorkers(8)) }))
	}
	t.Cleanup(func() {
		cancel()
		testkit.AllWithin(t, workers, patience)
	})
	return s
}

// open returns a queue of a new client.
func (s *clusterTasks) open(name string) *queue.Queue {
	s.Helper()
	q, err := queue.New(name, locktest.ClusterClient(s, s.cluster, relock.WithKeyPrefix(prefix)),
		queue.WithLease(tasksLease), queue.WithUnique(time.Hour))
	require.NoError(s, err)
	return q
}

// run is the function of all tasks.
func (s *clusterTasks) run(ctx context.Context, d *queue.Delivery) error {
	r := &taskRun{from: time.Now(), fence: d.Fence(), acked: errUnderWay}
	time.Sleep(time.Millisecond)
	r.until = time.Now()
	s.mu.Lock()
	s.runs[d.ID] = append(s.runs[d.ID], r)
	s.mu.Unlock()
	err := d.Ack(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.acked = err
	return err
}

var errUnderWay = errors.New("under way")

// keep returns a delivery of a queue in the same slot, which is renewed.
func (s *clusterTasks) keep() *queue.Delivery {
	q, err := queue.New(s.name, locktest.ClusterClient(s, s.cluster), queue.WithLease(keptLease))
	require.NoError(s, err)
	require.NoError(s, putTasks(s.Context(), q, queue.Task{ID: "kept"}))
	return takeTask(s.T, q, "kept")
}

// produce enqueues tasks, some with a key, until stop is called.
func (s *clusterTasks) produce(begin string) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	done := testkit.Async(s, func() error {
		for n := 0; ctx.Err() == nil || n < 20; n++ {
			task := queue.Task{ID: fmt.Sprintf("%s-%05d", begin, n)}
			if n%4 == 0 {
				task.Key = begin
			}
			s.enqueue(task)
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	return func() {
		cancel()
		require.NoError(s, testkit.ResultWithin(s, done, patience))
	}
}

// enqueue tries until the task is queued. A try without an answer may have
// queued it.
func (s *clusterTasks) enqueue(task queue.Task) {
	s.mu.Lock()
	s.runs[task.ID] = nil
	s.mu.Unlock()
	for limit := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := putTasks(s.Context(), s.queue, task)
		if err == nil || errors.Is(err, queue.ErrDuplicate) {
			return
		}
		if !relock.IsRetryableErr(err) && !errors.Is(err, relock.ErrUnconfirmed) || time.Now().After(limit) {
			s.Errorf("%s: %v", task.ID, err)
			return
		}
	}
}

// awaitDone waits until nothing is queued or in work, and each task has run.
func (s *clusterTasks) awaitDone() {
	s.Helper()
	testkit.Eventually(s, patience, func() bool {
		stats, err := s.queue.Stats(s.Context())
		require.True(s, err == nil || relock.IsRetryableErr(err), err)
		return err == nil && stats.Ready+stats.Delayed+stats.InFlight+stats.Behind == 0
	}, "tasks are left")
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, runs := range s.runs {
		require.NotEmpty(s, runs, "%s is lost", id)
	}
}

// wakeUp returns how long it takes until an idle worker starts a task, less
// what the machine may have added.
func (s *clusterTasks) wakeUp() time.Duration {
	s.last++
	id := fmt.Sprint("idle-", s.last)
	began, watch := time.Now(), testkit.NewStopwatch(s)
	s.enqueue(queue.Task{ID: id})
	s.awaitDone()
	added := time.Since(began) - watch.Net()
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.runs[id][0].from.Sub(began)-added).Round(100 * time.Microsecond)
}

// awaitCopied waits until a replica has all tasks.
func (s *clusterTasks) awaitCopied(master *redistest.Server) {
	s.Helper()
	s.awaitDone()
	conn := master.Dial(s)
	defer conn.Close() //nolint:errcheck // nothing is pending
	_, err := conn.Do("SET", "probe:{"+s.name+"}", 1)
	require.NoError(s, err)
	n, err := redis.Int(conn.Do("WAIT", 1, patience.Milliseconds()))
	require.NoError(s, err)
	require.Equal(s, 1, n)
}

// requireOnce checks that each task has run once, those of a key in order.
func (s *clusterTasks) requireOnce() {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, runs := range s.runs {
		require.True(s, len(runs) == 1 || runs[0].acked != nil, "%s ran %d times", id, len(runs))
	}
	before := &taskRun{}
	for _, id := range s.ofKeys() {
		for _, r := range s.runs[id] {
			require.Greater(s, r.fence, before.fence, id)
			require.False(s, r.from.Before(before.until), "%s ran beside the one before", id)
			before = r
		}
	}
}

// ofKeys returns the tasks with a key in order. The keys came after each other.
func (s *clusterTasks) ofKeys() (ids []string) {
	for i := 0; ; i++ {
		for n := 0; ; n += 4 {
			id := fmt.Sprintf("move%d-%05d", i, n)
			if _, known := s.runs[id]; !known {
				if n == 0 {
					return ids
				}
				break
			}
			ids = append(ids, id)
		}
	}
}

// requireAgainOnly checks that tasks ran again only after a failure, or after
// an Ack without an answer.
func (s *clusterTasks) requireAgainOnly(failed time.Time) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, runs := range s.runs {
		for _, r := range runs[:len(runs)-1] {
			require.True(s, r.acked != nil || r.until.After(failed.Add(-time.Second)),
				"%s ran again after it was acknowledged", id)
		}
	}
}

func (s *clusterTasks) again() (n int) {
	for _, runs := range s.runs {
		n += len(runs) - 1
	}
	return n
}
