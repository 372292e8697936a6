package proof

import (
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/queue"
)

// The steps of the state machine of a task queue.

var (
	machineTasks = []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"}
	taskOrders   = []string{"", "a", "b"}
)

func (m *taskMachine) step(r *rapid.T) {
	steps := []struct {
		name   string
		weight int
		ready  bool
		run    func(*rapid.T)
	}{
		{"settle", 5, len(m.deliveries) > 0, m.settleStep},
		{"enqueue", 5, true, m.enqueueStep},
		{"receive", 8, true, m.receiveStep},
		{"requeue", 2, true, m.requeueStep},
		{"remove", 2, true, m.removeStep},
		{"clock jumps", 2, true, m.clockStep},
		{"late copies arrive", 1, true, m.lateStep},
		{"stats and dead letters", 1, true, m.statsStep},
		{"scripts are forgotten", 1, true, m.forgetStep},
		{"server is killed and restarts", 1, true, m.restartStep},
	}
	var choice []int
	for i, s := range steps {
		for range s.weight {
			if s.ready {
				choice = append(choice, i)
			}
		}
	}
	s := steps[rapid.SampledFrom(choice).Draw(r, "step")]
	m.steps[s.name]++
	s.run(r)
}

// anyQueue is that of one of the clients.
func (m *taskMachine) anyQueue(r *rapid.T) *queue.Queue {
	return rapid.SampledFrom(m.queues).Draw(r, "client")
}

// isUnknown reports whether a call may have had its effect.
func isUnknown(r *rapid.T, err error) bool {
	unknown := errors.Is(err, relock.ErrUnconfirmed) || relock.IsRetryableErr(err)
	require.True(r, unknown, "%v", err)
	return unknown
}

func (m *taskMachine) enqueueStep(r *rapid.T) {
	q, now := m.anyQueue(r), m.now()
	var tasks []queue.Task
	var used []string
	after := m.model.clone()
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(machineTasks), 1, 3, rapid.ID).Draw(r, "ids") {
		t := queue.Task{ID: id, Key: rapid.SampledFrom(taskOrders).Draw(r, "key"), Payload: []byte(payloadOf(id))}
		if rapid.IntRange(0, 3).Draw(r, "delayed") == 3 {
			t.Delay = m.later(rapid.SampledFrom([]time.Duration{20 * time.Minute, 50 * time.Minute}).Draw(r, "delay")) + time.Duration(len(tasks))*10*time.Second
		}
		if after.inUse(id, now) {
			used = append(used, id)
		}
		after.put(id, t.Key, now.Add(time.Duration(len(tasks))), t.Delay)
		tasks = append(tasks, t)
	}
	var err error
	m.call(r, fmt.Sprint("enqueue ", tasks), func() { err = q.Enqueue(r.Context(), tasks...) })
	var duplicates *queue.DuplicateError
	switch {
	case errors.As(err, &duplicates):
		require.Equal(r, used, duplicates.IDs)
	case err == nil:
		require.Empty(r, used)
	case isUnknown(r, err):
		m.proxy.Release()
		m.become(r, m.model, after)
		return
	}
	m.proxy.Release() // while the tasks are queued, a copy has no effect
	m.become(r, after)
}

func (m *taskMachine) receiveStep(r *rapid.T) {
	q, n := m.anyQueue(r), rapid.IntRange(1, 4).Draw(r, "n")
	now, after := m.now(), m.model.clone()
	taken := after.receive(now, n)
	var got []*queue.Delivery
	var err error
	undone := m.undone()
	m.call(r, fmt.Sprint("receive ", n), func() { got, err = q.TryReceive(r.Context(), n) })
	if err != nil {
		isUnknown(r, err)
		require.Empty(r, got)
		_, ok := testkit.Await(undone, machinePatience)
		require.True(r, ok, "nothing has returned what the receive took")
		after.undo(taken)
		m.become(r, m.model, after)
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
	}
	m.deliveries = append(m.deliveries, got...)
	m.become(r, after)
}

// undone returns a channel that is closed when a receiver has undone its last
// receive, from now on.
func (m *taskMachine) undone() <-chan struct{} {
	n := m.receives.Add(1)
	return m.proxy.On(func(args []string) bool {
		return n == m.receives.Load() && faults.Script(script.TaskReceive.SHA)(args) && args[len(args)-7] == "0" // wants nothing
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
	met := m.call(r, fmt.Sprint(verb, " ", d, " ", pause), func() { err = settleBy(r, d, verb, pause) })
	switch {
	case errors.Is(err, relock.ErrNotHeld):
		require.False(r, has, "%v has its lease: %v", d, err)
	case err == nil && met && !has: // by the clock of the client, which has not jumped, an earlier copy has settled it
	case err == nil:
		require.True(r, has, "%v has no lease", d)
	default:
		isUnknown(r, err)
	}
	m.become(r, after)
}

func settleBy(r *rapid.T, d *queue.Delivery, verb string, pause time.Duration) error {
	ctx := r.Context()
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
	q, id, after := m.anyQueue(r), rapid.SampledFrom(machineTasks).Draw(r, "id"), m.model.clone()
	var want error
	switch t := m.model.tasks[id]; {
	case t == nil:
		want = queue.ErrNotFound
	case t.place == 'l':
		want = queue.ErrInFlight
	default:
		after.drop(id)
	}
	var err error
	met := m.call(r, "remove "+id, func() { err = q.Remove(r.Context(), id) })
	m.proxy.Release()
	switch {
	case err == nil && met && errors.Is(want, queue.ErrNotFound): // a copy may have removed it
		m.become(r, after)
	case err == nil:
		require.NoError(r, want, id)
		m.become(r, after)
	case errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrInFlight):
		require.ErrorIs(r, err, want)
		m.become(r, after)
	case isUnknown(r, err):
		m.become(r, m.model, after)
	}
}

func (m *taskMachine) requeueStep(r *rapid.T) {
	q, id, after := m.anyQueue(r), rapid.SampledFrom(machineTasks).Draw(r, "id"), m.model.clone()
	want := 0
	if t := m.model.tasks[id]; t != nil && t.place == 'z' {
		want = 1
		after.requeue(id, m.now())
	}
	n := 0
	var err error
	m.call(r, "requeue "+id, func() { n, err = q.Requeue(r.Context(), id) })
	m.proxy.Release()
	if err != nil {
		isUnknown(r, err)
		m.become(r, m.model, after)
		return
	}
	require.LessOrEqual(r, n, want) // less if a copy came first
	m.become(r, after)
}

// clockStep moves the server's clock forward. Leases end, and delayed tasks are
// due.
func (m *taskMachine) clockStep(r *rapid.T) {
	m.proxy.Release() // a copy is not late by many leases
	jump := m.later(rapid.SampledFrom([]time.Duration{3 * time.Minute, 11 * time.Minute, 23 * time.Minute, 61 * time.Minute}).Draw(r, "jump"))
	m.trail = append(m.trail, fmt.Sprint("clock jumps by ", jump))
	m.clock.Advance(m.t, jump)
	m.collect(r)
	m.become(r, m.model)
}

func (m *taskMachine) lateStep(r *rapid.T) {
	m.trail = append(m.trail, "late copies arrive")
	m.proxy.Release()
	m.become(r, m.model)
}

func (m *taskMachine) statsStep(r *rapid.T) {
	q, now := m.anyQueue(r), m.now()
	var s queue.Stats
	var err error
	m.call(r, "stats", func() { s, err = q.Stats(r.Context()) })
	if err != nil {
		isUnknown(r, err)
		return
	}
	want := queue.Stats{Idle: s.Idle, Oldest: s.Oldest}
	for _, t := range m.model.tasks {
		switch {
		case t.place == 'l':
			want.InFlight++
		case t.place == 'o':
			want.Behind++
		case t.place == 'z':
			want.Dead++
		case t.due.After(now):
			want.Delayed++
		default:
			want.Ready++
		}
	}
	require.Equal(r, want, s)
	dead := []string{}
	m.call(r, "dead letters", func() {
		for letter, failed := range q.DeadLetters(r.Context()) {
			dead, err = append(dead, letter.ID), errors.Join(err, failed)
		}
	})
	if err != nil {
		isUnknown(r, err)
		return
	}
	require.Equal(r, m.model.ordered('z', byDied), dead)
}

func (m *taskMachine) forgetStep(r *rapid.T) {
	_, err := m.conn.Do("SCRIPT", "FLUSH")
	require.NoError(r, err)
	m.loadReceive()
}

func (m *taskMachine) restartStep(r *rapid.T) {
	m.trail = append(m.trail, "server is killed and restarts")
	_ = m.conn.Close() // it is cut anyway
	m.server.Kill(m.t)
	m.server.BootAndLoad(m.t)
	m.conn = m.server.Dial(m.t)
	m.loadReceive()
	m.become(r, m.model)
}
