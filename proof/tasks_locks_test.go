package proof

import (
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock/internal/script"
)

// The steps of tasks that run under locks. The test sends what Process does
// with WithLocker.

// locksOfTasks are those that tasks are behind.
var locksOfTasks = []string{"x", "xy"}

// behindStep has a delivered task go behind a lock, for which somebody waits
// for some minutes.
func (m *taskMachine) behindStep(r *rapid.T) {
	d := rapid.SampledFrom(m.deliveries).Draw(r, "delivery")
	m.proxy.Release() // late settles of it come before
	m.become(r, m.model)
	now := m.now()
	if !m.model.has(d.ID, d.Fence()) || !m.model.tasks[d.ID].isInFlight(now) {
		return
	}
	lock := rapid.SampledFrom(locksOfTasks).Draw(r, "lock")
	wait := m.later(5 * time.Minute)
	m.trail = append(m.trail, fmt.Sprint(d, " goes behind lock ", lock))
	answer := m.eval(r, script.TaskSettle, "", 0, 1000, (30 * 24 * time.Hour).Milliseconds(), 0,
		d.ID, m.nameOf(r, d.ID), "b", fmt.Sprint(wait.Milliseconds(), " ", lock))
	require.Equal(r, int64(1), answer)
	m.model.goBehind(d.ID, lock, now.Add(wait))
	m.become(r, m.model)
}

// nameOf returns the fence and the token of a delivery, as they are stored.
func (m *taskMachine) nameOf(r *rapid.T, id string) string {
	stored, err := redis.String(m.conn.Do("HGET", taskKeys+"m", id))
	require.NoError(r, err)
	name, _, _ := strings.Cut(strings.Fields(stored)[1], "/")
	return name
}

// lockStep takes a task that is behind a lock. Nobody settles it.
func (m *taskMachine) lockStep(r *rapid.T) {
	lock := rapid.SampledFrom(locksOfTasks).Draw(r, "lock")
	m.trail = append(m.trail, "receive by lock "+lock)
	want, got := m.model.takeBehind(lock, m.now()), ""
	for more := true; more; {
		m.gates++
		answer, err := redis.Values(m.eval(r, script.TaskReceive, "gate:1", receiveArgs("gate:1", m.gates, 1, lock)...), nil)
		require.NoError(r, err)
		more = answer[0].(int64) == script.ScanLimit // it has dropped the place of a task that was removed
		if len(answer) > 3 {
			var fence int64
			_, err = redis.Scan(answer[3:], &got, &fence)
			require.NoError(r, err)
			require.Greater(r, fence, m.fence)
			m.fence, more = fence, false
		}
	}
	require.Equal(r, want, got)
	if got != "" {
		m.model.tasks[got].fence = m.fence
	}
	m.become(r, m.model)
}

// eval runs a script of the queue, without faults.
func (m *taskMachine) eval(r *rapid.T, s *script.TaskScript, receiver string, args ...any) any {
	keys := s.On(taskQueue, receiver)
	reply, err := m.conn.Do("EVAL", redis.Args{s.Source, len(keys)}.AddFlat(keys).Add(args...)...)
	require.NoError(r, err)
	return reply
}

// receiveArgs are those of the n-th receive of a receiver of the test.
func receiveArgs(receiver string, n, want int, lock string) []any {
	return []any{
		receiver, n, n - 1, want, modelTaskTime.Milliseconds(),
		modelFatal, 1000, (30 * 24 * time.Hour).Milliseconds(), "00", 0, 0, 4 << 20, lock, "token/",
	}
}
