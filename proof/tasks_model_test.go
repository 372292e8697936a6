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
	modelFatal    = 3                // interruptions of a dead letter
	modelTaskTime = 10 * time.Minute // of a lease
)

// modelTask is a task of the model.
type modelTask struct {
	key      string
	place    byte   // as the suffixes of the keys: b, d, l, o, s, w, z
	lock     string // in b; see aside
	ticket   time.Time
	due      time.Time // in d and w
	ends     time.Time // in l
	died     int       // in z: the how many-th
	joined   int       // in o: the how many-th
	received bool
	attempt  int
	cut      int // how often it was interrupted
	fence    int64
}

type taskModel struct {
	tasks  map[string]*modelTask
	heads  map[string]string
	done   map[string]time.Time // until when an ID is refused
	waits  map[string]time.Time // until when somebody waits for a lock
	paused map[string]bool      // keys, and "" for the queue
	unique time.Duration
	deaths int
	joins  int
	last   time.Time // the last number that was drawn; above now if the clock was set back
}

func newTaskModel(unique time.Duration) *taskModel {
	return &taskModel{
		tasks: map[string]*modelTask{}, heads: map[string]string{},
		done: map[string]time.Time{}, waits: map[string]time.Time{}, paused: map[string]bool{}, unique: unique,
	}
}

func (m *taskModel) clone() *taskModel {
	c := *m
	c.waits, c.paused = maps.Clone(m.waits), maps.Clone(m.paused)
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

// draw returns a number above all earlier ones: now, unless the clock was set
// back.
func (m *taskModel) draw(now time.Time) time.Time {
	if m.last = m.last.Add(time.Microsecond); now.After(m.last) {
		m.last = now
	}
	return m.last
}

// put queues a task with this ticket, unless its ID is in use.
func (m *taskModel) put(id, key string, ticket, now time.Time, delay time.Duration) {
	if m.inUse(id, now) {
		return
	}
	t := &modelTask{key: key, ticket: ticket}
	m.tasks[id] = t
	if delay == 0 {
		m.join(id, t, now)
		return
	}
	t.ticket = now.Add(delay)
	m.becomeDue(t, t.ticket)
	if key != "" {
		t.place = 'w'
	}
}

// join makes a task the head of its key, or puts it behind the last one.
func (m *taskModel) join(id string, t *modelTask, now time.Time) {
	if t.key != "" && m.heads[t.key] != "" && m.heads[t.key] != id {
		m.joins++
		t.place, t.joined = 'o', m.joins
		return
	}
	if t.key != "" {
		m.heads[t.key] = id
	}
	if t.place != 'd' {
		m.becomeDue(t, t.dueAt(now))
	}
}

// dueAt is when a task without a pause is due: at its ticket, or now if the
// clock was set back since that was drawn, and not only just now.
func (t *modelTask) dueAt(now time.Time) time.Time {
	if t.ticket.After(now.Add(time.Second)) {
		return now
	}
	return t.ticket
}

func (m *taskModel) becomeDue(t *modelTask, at time.Time) {
	if t.place, t.due = 'd', at; t.cut > 0 {
		t.place = 's'
	}
}

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

func byTicket(a, b *modelTask) int { return a.ticket.Compare(b.ticket) }

// attempts describes how many attempts and interruptions a task has had.
func (t *modelTask) attempts() string {
	if t.cut == 0 {
		return fmt.Sprint(t.attempt)
	}
	return fmt.Sprint(t.attempt, "~", t.cut)
}

// isInFlight reports whether the task has a lease that has not ended.
func (t *modelTask) isInFlight(now time.Time) bool { return t.place == 'l' && t.ends.After(now) }

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
		if near(t.due) || near(t.ends) || near(t.ticket) {
			return true
		}
	}
	for _, until := range m.waits {
		if near(until) {
			return true
		}
	}
	return near(m.last) || slices.ContainsFunc(slices.Collect(maps.Values(m.done)), near)
}

// isDue reports whether tasks are due when they must be. A settle may have been
// repeated for some seconds.
func (m *taskModel) isDue(at map[string]int64) bool {
	const most = 20 * time.Second
	for id, t := range m.tasks {
		if (t.place == 'd' || t.place == 'w' || t.place == 's') && time.UnixMicro(at[id]).Sub(t.due).Abs() > most {
			return false
		}
	}
	return true
}

// String describes what the server must have.
func (m *taskModel) String() string {
	s := taskState{
		due: m.ordered('d', byDue), delayed: m.ordered('w', byDue), leased: m.ordered('l', byID),
		behind: m.ordered('o', byJoined), dead: m.ordered('z', byDied),
		suspect: m.ordered('s', byDue),
		all:     slices.Collect(maps.Keys(m.tasks)),
	}
	for key := range m.paused {
		s.paused = append(s.paused, cmp.Or(key, "\x00"))
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
	for _, id := range m.ordered('b', byID) {
		s.locked = append(s.locked, id+" behind "+m.tasks[id].lock)
	}
	for id, t := range m.tasks {
		if t.received {
			s.attempts = append(s.attempts, id+"="+t.attempts())
		}
	}
	return s.String()
}
