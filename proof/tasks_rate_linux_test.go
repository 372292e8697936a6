package proof

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

func init() { roles["slow worker"] = slowWorkerRole }

const slowWorkers = 64

// slowWorkerRole processes tasks that take long. Arguments: network, address,
// how long a task takes and a lease in ms.
func slowWorkerRole(self *faults.Self) error {
	client, err := newProcessClient(self.Args[0], self.Args[1])
	if err != nil {
		return err
	}
	takes, err := strconv.Atoi(self.Args[2])
	if err != nil {
		return err
	}
	lease, err := strconv.Atoi(self.Args[3])
	if err != nil {
		return err
	}
	q, err := queue.New(tasksQueue, client, queue.WithLease(time.Duration(lease)*time.Millisecond))
	if err != nil {
		return err
	}
	self.Emit("ready")
	return q.Process(context.Background(), func(context.Context, *queue.Delivery) error {
		time.Sleep(time.Duration(takes) * time.Millisecond)
		return nil
	}, queue.WithWorkers(slowWorkers))
}

// Three processes with 64 workers each are killed together, as in a deploy, and
// three others begin. These are not kept from new tasks by those that were
// interrupted, which run one at a time in each, and end as no dead letters.
func TestRateAfterKills(t *testing.T) {
	const processes = 3
	takes, lease := pick(10*time.Second, 100*time.Millisecond), pick(30*time.Second, 2*time.Second)
	server := redistest.Start(t)
	server.AwaitUp(t, int(lease.Seconds()))
	q, err := queue.New(tasksQueue, newParentClient(t, server), queue.WithLease(lease))
	require.NoError(t, err)
	total := processes * slowWorkers * pick(12, 8)
	var tasks []queue.Task
	for i := range total {
		tasks = append(tasks, queue.Task{ID: fmt.Sprint(i)})
	}
	require.NoError(t, putTasks(t.Context(), q, tasks...))
	done := func() int {
		s, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Zero(t, s.Dead)
		return total - s.Ready - s.Delayed - s.InFlight - s.Behind
	}
	// duringTwo returns how many tasks are done in twice the time of one.
	duringTwo := func() int {
		time.Sleep(takes / 2)
		before := done()
		time.Sleep(2 * takes)
		return done() - before
	}
	first := spawnSlow(t, server, processes, takes, lease)
	rate := duringTwo()
	for _, child := range first {
		child.Kill()
	}
	second := spawnSlow(t, server, processes, takes, lease)
	after := duringTwo()
	t.Logf("%d tasks done in %v, and %d in the same time soon after the kills", rate, 2*takes, after)
	if *long {
		require.Greater(t, float64(after), 0.8*float64(rate))
		return
	}
	testkit.Eventually(t, 4*patience, func() bool { return done() == total }, "all are done")
	for _, child := range second {
		child.Kill()
	}
}

func spawnSlow(t *testing.T, s *redistest.Server, n int, takes, lease time.Duration) (all []*faults.Child) {
	t.Helper()
	for range n {
		all = append(all, faults.Spawn(t, "slow worker", s.Network, s.Address,
			fmt.Sprint(takes.Milliseconds()), fmt.Sprint(lease.Milliseconds())))
	}
	for _, child := range all {
		child.Next("ready", patience)
	}
	return all
}
