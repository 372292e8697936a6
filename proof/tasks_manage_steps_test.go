package proof

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock/queue"
)

// pauseStep pauses or resumes the queue or a key.
func (m *taskMachine) pauseStep(r *rapid.T) {
	q, key, after := m.anyQueue(r), rapid.SampledFrom(taskOrders).Draw(r, "key"), m.model.clone()
	pauses := rapid.IntRange(0, 4).Draw(r, "pause") < 2
	if pauses {
		after.paused[key] = true
	} else {
		after.resume(key, m.now())
	}
	var err error
	what := fmt.Sprintf("pause %q: %v", key, pauses)
	m.call(r, what, func(ctx context.Context) { err = pauseBy(ctx, q, key, pauses) })
	m.proxy.Release()
	switch {
	case err == nil:
		m.become(r, after)
	case isUnknown(r, err):
		m.become(r, m.model, after)
	default:
		m.become(r, m.model)
	}
}

func pauseBy(ctx context.Context, q *queue.Queue, key string, pauses bool) error {
	switch {
	case key == "" && pauses:
		return q.Pause(ctx)
	case key == "":
		return q.Resume(ctx)
	case pauses:
		return q.PauseKey(ctx, key)
	}
	return q.ResumeKey(ctx, key)
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
	m.call(r, "requeue "+id, func(ctx context.Context) { n, err = q.Requeue(ctx, id) })
	m.proxy.Release()
	switch {
	case err == nil:
	case isUnknown(r, err):
		m.become(r, m.model, after)
		return
	default:
		after = m.model
	}
	require.LessOrEqual(r, n, want) // less if a copy came first
	m.become(r, after)
}

// clockStep moves the server's clock forward. Leases end, and delayed tasks are
// due.
func (m *taskMachine) clockStep(r *rapid.T) {
	m.proxy.Release() // a copy is not late by many leases
	jump := m.later(rapid.SampledFrom([]time.Duration{
		3 * time.Minute, 11 * time.Minute, 23 * time.Minute, 61 * time.Minute,
	}).Draw(r, "jump"))
	m.trail = append(m.trail, fmt.Sprint("clock jumps by ", jump))
	m.clock.Advance(m.t, jump)
	m.collect(r)
	m.become(r, m.model)
}

// backStep sets the server's clock back. What was due waits until the clock has
// caught up, and what comes after that does not. IDs that are no longer refused
// are forgotten before: any call could have done that.
func (m *taskMachine) backStep(r *rapid.T) {
	m.proxy.Release()
	now := m.now()
	m.do(r, "ZREMRANGEBYSCORE", taskKeys+"u", "-inf", now.UnixMicro())
	maps.DeleteFunc(m.model.done, func(_ string, until time.Time) bool { return !until.After(now) })
	back := rapid.SampledFrom([]time.Duration{4 * time.Minute, 37 * time.Minute}).Draw(r, "back")
	for m.model.near(m.now().Add(-back)) {
		back += time.Minute
	}
	m.trail = append(m.trail, fmt.Sprint("clock is set back by ", back))
	m.clock.Advance(m.t, -back)
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
	m.call(r, "stats", func(ctx context.Context) { s, err = q.Stats(ctx) })
	if err != nil {
		isUnknown(r, err)
		return
	}
	want := queue.Stats{Idle: s.Idle, Oldest: s.Oldest, Paused: m.model.paused[""], PausedKeys: len(m.model.paused)}
	if want.Paused {
		want.PausedKeys--
	}
	for _, t := range m.model.tasks {
		switch {
		case t.isInFlight(now):
			want.InFlight++
		case t.place == 'l':
			want.Ready++
		case t.place == 'o' || t.place == 'b':
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
	m.pausedKeys(r, q)
	dead := []string{}
	m.call(r, "dead letters", func(ctx context.Context) {
		for letter, failed := range q.DeadLetters(ctx) {
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

// replaceStep closes a client. Its leases go on until they end. A new client
// takes its place.
func (m *taskMachine) replaceStep(r *rapid.T) {
	n := m.anyClient(r)
	m.trail = append(m.trail, fmt.Sprint("client is replaced: ", n))
	require.NoError(r, m.clients[n].Close())
	m.clients[n], m.queues[n] = m.open(r)
	m.deliveries = slices.DeleteFunc(m.deliveries, func(d *taskDelivery) bool { return d.client == n })
	m.suspects[n] = nil
	m.become(r, m.model)
}

// pausedKeys compares the list of paused keys.
func (m *taskMachine) pausedKeys(r *rapid.T, q *queue.Queue) {
	keys := map[string]bool{}
	var err error
	m.call(r, "paused keys", func(ctx context.Context) {
		for paused, failed := range q.PausedKeys(ctx) {
			keys[paused.Key], err = true, errors.Join(err, failed)
		}
	})
	if err != nil {
		isUnknown(r, err)
		return
	}
	want := maps.Clone(m.model.paused)
	delete(want, "")
	require.Equal(r, want, keys)
}
