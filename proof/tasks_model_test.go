package proof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// This is the model of a task queue: where each task must be, and in which
// order. Times are those of the server, as exactly as a test can know them. No
// two of them are close to each other.

const (
	modelAttempts = 3
	modelTaskTime = 10 * time.Minute // of a lease
)

// modelTask is a task of the model.
type modelTask struct {
	key      string
	place    byte // as the suffixes of the keys: d, l, o, z
	ticket   time.Time
	due      time.Time // in d
	ends     time.Time // in l
	died     int       // in z: the how many-th
	joined   int       // in o: the how many-th
	received bool
	attempt  int
	fence    int64
}

type taskModel struct {
	tasks  map[string]*modelTask
	heads  map[string]string
	done   map[string]time.Time // until when an ID is refused
	unique time.Duration
	deaths int
	joins  int
}

func newTaskModel(unique time.Duration) *taskModel {
	return &taskModel{tasks: map[string]*modelTask{}, heads: map[string]string{}, done: map[string]time.Time{}, unique: unique}
}

func (m *taskModel) clone() *taskModel {
	c := *m
	c.heads, c.done, c.tasks = maps.Clone(m.heads), maps.Clone(m.done), map[string]*modelTask{}
	for id, t := range m.tasks {
		copied := *t
		c.tasks[id] = &copied
	}
	return &c
}

// inUse reports whether a task with this ID must be refused.
func (m *taskModel) inUse(id string, now time.Time) bool {
	return m.tasks[id] != nil || m.done[id].After(now)
}

// put queues a task, unless its ID is in use.
func (m *taskModel) put(id, key string, now time.Time, delay time.Duration) {
	if m.inUse(id, now) {
		return
	}
	t := &modelTask{key: key, ticket: now.Add(delay)}
	m.tasks[id] = t
	if delay == 0 {
		m.join(id, t)
		return
	}
	m.becomeDue(t, t.ticket)
}

// join makes a task the head of its key, or puts it behind the last one.
func (m *taskModel) join(id string, t *modelTask) {
	if t.key != "" && m.heads[t.key] != "" && m.heads[t.key] != id {
		m.joins++
		t.place, t.joined = 'o', m.joins
		return
	}
	if t.key != "" {
		m.heads[t.key] = id
	}
	if t.place != 'd' {
		m.becomeDue(t, t.ticket)
	}
}

func (m *taskModel) becomeDue(t *modelTask, at time.Time) { t.place, t.due = 'd', at }

// ordered returns the ids in a place, in order.
func (m *taskModel) ordered(place byte, before func(a, b *modelTask) int) []string {
	ids := []string{}
	for id, t := range m.tasks {
		if t.place == place {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(before(m.tasks[a], m.tasks[b]), cmp.Compare(a, b))
	})
	return ids
}

func byDue(a, b *modelTask) int  { return a.due.Compare(b.due) }
func byEnds(a, b *modelTask) int { return a.ends.Compare(b.ends) }
func byDied(a, b *modelTask) int { return a.died - b.died }
func byJoined(a, b *modelTask) int {
	return a.joined - b.joined
}

func byID(*modelTask, *modelTask) int {
	return 0
}

// receive takes up to n due tasks. Delayed ones join their keys.
func (m *taskModel) receive(now time.Time, n int) (taken []string) {
	joined := true
	for joined && len(taken) == 0 {
		joined = false
		due := m.ordered('d', byDue)
		for _, id := range due[:min(n, len(due))] {
			t := m.tasks[id]
			if t.due.After(now) {
				break
			}
			if m.join(id, t); t.place == 'o' {
				joined = true
				continue
			}
			taken = append(taken, id)
		}
	}
	for _, id := range taken {
		t := m.tasks[id]
		t.place, t.received, t.ends = 'l', true, now.Add(modelTaskTime)
		t.attempt++
	}
	return taken
}

// undo returns what a receive took that nobody knows of.
func (m *taskModel) undo(taken []string) {
	for _, id := range taken {
		m.tasks[id].attempt--
		m.becomeDue(m.tasks[id], m.tasks[id].ticket)
	}
}

// collect ends the leases that are over.
func (m *taskModel) collect(now time.Time) {
	for _, id := range m.ordered('l', byEnds) {
		switch t := m.tasks[id]; {
		case t.ends.After(now):
		case t.attempt < modelAttempts:
			m.becomeDue(t, t.ticket)
		default:
			m.bury(t)
		}
	}
}

func (m *taskModel) bury(t *modelTask) {
	m.deaths++
	t.place, t.died = 'z', m.deaths
	m.follow(t.key)
}

// follow makes the next task of a key its head.
func (m *taskModel) follow(key string) {
	if key == "" {
		return
	}
	delete(m.heads, key)
	for _, id := range m.ordered('o', byJoined) {
		if t := m.tasks[id]; t.key == key {
			m.heads[key] = id
			m.becomeDue(t, t.ticket)
			return
		}
	}
}

// settle ends a delivery that has its lease.
func (m *taskModel) settle(id, verb string, pause time.Duration, now time.Time) {
	t := m.tasks[id]
	switch verb {
	case "ack":
		m.drop(id)
		if m.unique > 0 {
			m.done[id] = now.Add(m.unique)
		}
	case "dead-letter":
		m.bury(t)
	case "release":
		t.attempt--
		m.becomeDue(t, t.ticket)
	case "nack":
		m.becomeDue(t, t.ticket)
		if pause > 0 {
			t.due = now.Add(pause)
		}
	}
}

// drop deletes a task.
func (m *taskModel) drop(id string) {
	key := m.tasks[id].key
	delete(m.tasks, id)
	if m.heads[key] == id {
		m.follow(key)
	}
}

// requeue queues a dead letter as a new task.
func (m *taskModel) requeue(id string, now time.Time) {
	t := &modelTask{key: m.tasks[id].key, ticket: now}
	m.tasks[id] = t
	m.join(id, t)
}

// has reports whether a delivery has its lease.
func (m *taskModel) has(id string, fence int64) bool {
	t := m.tasks[id]
	return t != nil && t.place == 'l' && t.fence == fence
}

// near reports whether a time is close to one at which something happens.
func (m *taskModel) near(at time.Time) bool {
	const gap = 2 * time.Minute
	near := func(other time.Time) bool { return at.Sub(other).Abs() < gap }
	for _, t := range m.tasks {
		if near(t.due) || near(t.ends) {
			return true
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(m.done)), near)
}

// isDue reports whether tasks are due when they must be. A settle may have been
// repeated for some seconds.
func (m *taskModel) isDue(at map[string]int64) bool {
	const most = 20 * time.Second
	for id, t := range m.tasks {
		if t.place == 'd' && time.UnixMicro(at[id]).Sub(t.due).Abs() > most {
			return false
		}
	}
	return true
}

// String describes what the server must have.
func (m *taskModel) String() string {
	s := taskState{
		due: m.ordered('d', byDue), leased: m.ordered('l', byID), behind: m.ordered('o', byJoined), dead: m.ordered('z', byDied),
		all: slices.Collect(maps.Keys(m.tasks)),
	}
	for key, head := range m.heads {
		list := []string{head}
		for _, id := range s.behind {
			if m.tasks[id].key == key {
				list = append(list, id)
			}
		}
		s.keys = append(s.keys, fmt.Sprint(key, list, list[len(list)-1]))
	}
	for id, t := range m.tasks {
		if t.received {
			s.attempts = append(s.attempts, fmt.Sprint(id, "=", t.attempt))
		}
	}
	return s.String()
}
