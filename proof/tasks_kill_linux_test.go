package proof

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// run is one attempt at a task, as its process reported it.
type run struct {
	process     int
	fence       int64
	from, until int64
	acked       bool
}

// Four processes work on tasks, and one of them is killed all the time. Each
// task is done, and acknowledged once. It runs again only after its worker's
// death. Tasks of a key run one at a time, in order.
func TestTasksOfKilledWorkers(t *testing.T) {
	t.Parallel()
	const processes = 4
	keys, each, free := pick(1000, 100), pick(100, 20), pick(100_000, 1000)
	server := redistest.Start(t)
	q, err := queue.New(tasksQueue, newParentClient(t, server))
	require.NoError(t, err)
	crew := faults.StartCrew(t, processes, func(int) *faults.Child {
		return faults.Spawn(t, "worker", server.Network, server.Address)
	})
	var queued atomic.Bool // workers may be faster than this
	put := testkit.Async(t, func() error {
		defer queued.Store(true)
		var tasks []queue.Task
		for n := range each {
			for k := range keys {
				tasks = append(tasks, queue.Task{ID: fmt.Sprintf("k%d-%05d", k, n), Key: fmt.Sprint(k)})
			}
		}
		for n := range free {
			tasks = append(tasks, queue.Task{ID: fmt.Sprint("free-", n)})
		}
		return putTasks(t.Context(), q, tasks...)
	})
	start := time.Now()
	left := func() int {
		s, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Zero(t, s.Dead)
		return s.Ready + s.Delayed + s.InFlight + s.Behind
	}
	kills := 0
	for limit := time.Now().Add(pick(10*time.Minute, patience)); !queued.Load() || left() > 0 || kills == 0; kills++ {
		require.True(t, time.Now().Before(limit), "%d tasks are left", left())
		time.Sleep(200 * time.Millisecond) // the pace of the kills
		if i := kills % processes; kills < pick(1000, 6) {
			crew.Kill(i)
		}
	}
	require.NoError(t, testkit.ResultWithin(t, put, patience))
	crew.End(patience)
	took := time.Since(start)

	runs := map[string][]run{}
	for n, process := range crew.All {
		end := crew.KilledAt[n]
		for _, e := range process.Events() {
			id, fence := e.Values[0], e.Int(1)
			if e.Name == "began" {
				runs[id] = append(runs[id], run{process: n, fence: fence, from: e.At, until: end})
				continue
			}
			for i := range runs[id] {
				if r := &runs[id][i]; r.fence == fence && r.process == n {
					switch e.Name {
					case "did": // the next of its key may begin before Ack returns
						r.until = e.At
					case "acked":
						r.acked = true
					}
				}
			}
		}
	}
	require.Len(t, runs, keys*each+free, "each task was in work")
	again := judgeRuns(t, runs, crew.KilledAt)
	t.Logf("%d tasks, %d kills, %d runs again, %v", len(runs), len(crew.KilledAt), again, took.Round(time.Millisecond))
}

// judgeRuns checks the attempts at all tasks. It returns how many were made
// after the first.
func judgeRuns(t *testing.T, runs map[string][]run, killedAt map[int]int64) (again int) {
	t.Helper()
	ofKey := map[string][]string{}
	for id, attempts := range runs {
		slices.SortFunc(attempts, func(a, b run) int { return int(a.fence - b.fence) })
		acked := 0
		for i, r := range attempts {
			if r.acked {
				acked++
			}
			if i == len(attempts)-1 {
				continue
			}
			again++
			require.NotZero(t, killedAt[r.process], "%s ran again, and its worker lived", id)
			require.False(t, r.acked, "%s ran again after it was acknowledged", id)
			require.Less(t, killedAt[r.process], attempts[i+1].from, "%s ran again before its worker died", id)
		}
		require.LessOrEqual(t, acked, 1, "%s was acknowledged %d times", id, acked)
		if key, _, ok := strings.Cut(id, "-"); ok && key != "free" {
			ofKey[key] = append(ofKey[key], id)
		}
	}
	for key, ids := range ofKey {
		slices.Sort(ids)
		var before run
		for _, id := range ids {
			for _, r := range runs[id] {
				require.Greater(t, r.fence, before.fence, "key %s, task %s", key, id)
				require.GreaterOrEqual(t, r.from, before.until, "key %s, task %s", key, id)
				before = r
			}
		}
	}
	return again
}
