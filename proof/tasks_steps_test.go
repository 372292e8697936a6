package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// The steps of the state machine of a task queue.

var (
	machineTasks = []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"}
	taskOrders   = []string{"", "a", "b"}
)

func (m *taskMachine) step(r *rapid.T) {
	s := draw(r, []command[func(*rapid.T)]{
		{"settle", 5, len(m.deliveries) > 0, m.settleStep},
		{"enqueue", 5, true, m.enqueueStep},
		{"receive", 8, true, m.receiveStep},
		{"goes behind a lock", 2, len(m.deliveries) > 0, m.behindStep},
		{"receive by lock", 1, true, m.lockStep},
		{"pause or resume", 2, true, m.pauseStep},
		{"requeue", 2, true, m.requeueStep},
		{"remove", 2, true, m.removeStep},
		{"clock jumps", 2, true, m.clockStep},
		{"clock is set back", 1, true, m.backStep},
		{"late copies arrive", 1, true, m.lateStep},
		{"stats and dead letters", 1, true, m.statsStep},
		{"scripts are forgotten", 1, true, m.forgetStep},
		{"server is killed and restarts", 1, true, m.restartStep},
		{"client is replaced", 1, true, m.replaceStep},
	})
	m.steps[s.name]++
	s.run(r)
}

// anyClient is the number of one of the clients.
func (m *taskMachine) anyClient(r *rapid.T) int {
	return rapid.IntRange(0, len(m.clients)-1).Draw(r, "client")
}

// anyQueue is that of one of the clients.
func (m *taskMachine) anyQueue(r *rapid.T) *queue.Queue { return m.queues[m.anyClient(r)] }

// isUnknown reports whether a call may have had its effect. One that is not
// permitted has none.
func isUnknown(r *rapid.T, err error) bool {
	if errors.Is(err, relock.ErrDenied) {
		return false
	}
	left := errors.Is(err, context.Canceled)
	require.True(r, left || errors.Is(err, relock.ErrUnconfirmed) || relock.IsRetryableErr(err), "%v", err)
	return true
}

func (m *taskMachine) enqueueStep(r *rapid.T) {
	q, now := m.anyQueue(r), m.now()
	var tasks []queue.Task
	var used []string
	after := m.model.clone()
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(machineTasks), 1, 3, rapid.ID).Draw(r, "ids") {
		t := queue.Task{ID: id, Key: rapid.SampledFrom(taskOrders).Draw(r, "key"), Payload: []byte(payloadOf(id))}
		if rapid.IntRange(0, 3).Draw(r, "delayed") == 3 {
			t.Delay = m.later(rapid.SampledFrom([]time.Duration{20 * time.Minute, 50 * time.Minute}).Draw(r, "delay")) +
				time.Duration(len(tasks))*10*time.Second
		}
		tasks = append(tasks, t)
	}
	draws := slices.ContainsFunc(tasks, func(t queue.Task) bool { return t.Key != "" })
	for i, t := range tasks {
		if after.inUse(t.ID, now) {
			used = append(used, t.ID)
		}
		at := now.Add(time.Duration(i))
		ticket := at
		if draws {
			ticket = after.draw(at)
		}
		after.put(t.ID, t.Key, ticket, at, t.Delay)
	}
	var err error
	m.call(r, fmt.Sprint("enqueue ", tasks), func(ctx context.Context) { err = putTasks(ctx, q, tasks...) })
	var failed *queue.EnqueueError
	switch {
	case errors.As(err, &failed) && len(failed.Duplicates) > 0:
		require.Equal(r, used, failed.Duplicates)
		require.Len(r, failed.Queued, len(tasks)-len(used))
	case err == nil:
		require.Empty(r, used)
	case isUnknown(r, err):
		m.proxy.Release()
		m.become(r, m.model, after)
		return
	default:
		after = m.model
	}
	m.proxy.Release() // while the tasks are queued, a copy has no effect
	m.become(r, after)
}

func (m *taskMachine) receiveStep(r *rapid.T) {
	client, n := m.anyClient(r), rapid.IntRange(1, 4).Draw(r, "n")
	now, after := m.now(), m.model.clone()
	taken, between := after.receive(now, n, m.suspects[client] == nil || m.suspects[client].settled)
	var got []*queue.Delivery
	var err error
	undone := m.undone()
	m.call(r, fmt.Sprint("receive ", n), func(ctx context.Context) { got, err = m.queues[client].TryReceive(ctx, n) })
	if err != nil {
		require.Empty(r, got)
		if !isUnknown(r, err) {
			m.become(r, m.model)
			return
		}
		_, ok := testkit.Await(undone, machinePatience)
		require.True(r, ok, "nothing has returned what the receive took")
		after.undo(taken, now)
		m.become(r, append(between, m.model, after)...)
		return
	}
	require.Len(r, got, len(taken), "%v", taken)
	for i, d := range got {
		t := after.tasks[taken[i]]
		require.Equal(r, taken[i], d.ID)
		require.Equal(r, t.key, d.Key)
		require.Equal(r, payloadOf(d.ID), string(d.Payload))
		require.Equal(r, t.attempt, d.Attempt)
		require.Greater(r, d.Fence(), m.fence)
		require.NoError(r, d.Err())
		t.fence, m.fence = d.Fence(), d.Fence()
		require.Equal(r, t.cut, d.Interruptions)
		m.deliveries = append(m.deliveries, &taskDelivery{Delivery: d, client: client})
		if t.cut > 0 {
			m.suspects[client] = m.deliveries[len(m.deliveries)-1]
		}
	}
	m.become(r, after)
}

// undone returns a channel that is closed when a receiver has undone its last
// receive, from now on.
func (m *taskMachine) undone() <-chan struct{} {
	n := m.receives.Add(1)
	return m.proxy.On(func(args []string) bool {
		isLast := n == m.receives.Load() // first, as all earlier ones are asked, too
		return isLast && faults.Script(script.TaskReceive.SHA)(args) && args[len(args)-11] == "0"
	}, 1, faults.Delay(0))
}

// settleStep settles a delivery, or one that is settled or lost already.
func (m *taskMachine) settleStep(r *rapid.T) {
	recent := m.deliveries[max(0, len(m.deliveries)-6):]
	i := rapid.IntRange(0, len(recent)-1).Draw(r, "delivery")
	d, now, after := recent[i], m.now(), m.model.clone()
	verb := rapid.SampledFrom([]string{"ack", "nack", "release", "dead-letter"}).Draw(r, "verb")
	pause := time.Duration(0)
	if verb == "nack" && rapid.Bool().Draw(r, "later") {
		pause = m.later(15 * time.Minute)
	}
	has := m.model.has(d.ID, d.Fence())
	if has {
		after.settle(d.ID, verb, pause, now)
	}
	var err error
	what := fmt.Sprint(verb, " ", d, " ", pause)
	d.settled = true
	met := m.call(r, what, func(ctx context.Context) { err = settleBy(ctx, d, verb, pause) })
	switch {
	case errors.Is(err, relock.ErrNotHeld):
		require.False(r, has, "%v has its lease: %v", d, err)
	case err == nil && met && !has: // by the clock of the client, which has not jumped, an earlier copy has settled it
	case err == nil:
		require.True(r, has, "%v has no lease", d)
	default:
		isUnknown(r, err) // it goes on in the background, also one that is not permitted
	}
	m.become(r, after)
}

func settleBy(ctx context.Context, d *taskDelivery, verb string, pause time.Duration) error {
	switch verb {
	case "ack":
		return d.Ack(ctx)
	case "nack":
		return d.Nack(ctx, pause, nil)
	case "release":
		return d.Release(ctx)
	}
	return d.DeadLetter(ctx, nil)
}

func (m *taskMachine) removeStep(r *rapid.T) {
	q, id, after, now := m.anyQueue(r), rapid.SampledFrom(machineTasks).Draw(r, "id"), m.model.clone(), m.now()
	var want error
	switch t := m.model.tasks[id]; {
	case t == nil:
		want = queue.ErrNotFound
	case t.isInFlight(now):
		want = queue.ErrInFlight
	default:
		after.drop(id, now)
	}
	var err error
	m.call(r, "remove "+id, func(ctx context.Context) { err = q.Remove(ctx, id) })
	m.proxy.Release()
	switch {
	case err == nil:
		require.NoError(r, want, id)
		m.become(r, after)
	case errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrInFlight):
		require.ErrorIs(r, err, want)
		m.become(r, after)
	case isUnknown(r, err):
		m.become(r, m.model, after)
	default:
		m.become(r, m.model)
	}
}
