package proof

import (
	"slices"
	"time"
)

// receive receives until it takes a task, or there is none. between is what the
// queue is meanwhile: the heads of paused keys go aside.
func (m *taskModel) receive(now time.Time, n int, suspect bool) (taken []string, between []*taskModel) {
	for {
		taken = m.receiveOnce(now, n, suspect)
		some := slices.DeleteFunc(slices.Clone(taken), func(id string) bool { return m.paused[m.tasks[id].key] })
		for _, id := range taken {
			if !slices.Contains(some, id) {
				m.park(m.tasks[id])
			}
		}
		m.take(some, now)
		if len(some) > 0 || len(taken) == 0 {
			return some, between
		}
		m.parkMore(now)
		between = append(between, m.clone())
	}
}

// parkMore puts the heads of all paused keys aside, once the first tasks that
// are due were nothing else.
func (m *taskModel) parkMore(now time.Time) {
	for _, id := range m.ordered('d', byDue) {
		if t := m.tasks[id]; m.paused[t.key] && !t.due.After(now) {
			m.park(t)
		}
	}
}

// aside is the place of the head of a paused key.
func aside(key string) string { return "the pause of " + key }

func (m *taskModel) park(t *modelTask) { t.place, t.received, t.lock = 'b', true, aside(t.key) }

// resume ends the pause of a key, or of the queue.
func (m *taskModel) resume(key string, now time.Time) {
	delete(m.paused, key)
	if key != "" {
		m.giveUp(aside(key), now)
	}
}

// receiveOnce returns up to n due tasks, and among them one that was
// interrupted if that is allowed. Those are due for whose locks nobody waits
// any more. Delayed ones join their keys.
func (m *taskModel) receiveOnce(now time.Time, n int, suspect bool) (taken []string) {
	for lock, until := range m.waits {
		if !until.After(now) {
			m.giveUp(lock, now)
		}
	}
	for _, id := range m.ordered('w', byDue) {
		if t := m.tasks[id]; !t.due.After(now) {
			m.join(id, t, now)
		}
	}
	if m.paused[""] {
		return nil
	}
	for _, id := range m.ordered('d', byDue) {
		if len(taken) < n && !m.tasks[id].due.After(now) {
			taken = append(taken, id)
		}
	}
	if suspect {
		taken = m.withSuspect(taken, now, n)
	}
	return taken
}

// withSuspect adds a task that was interrupted, or puts it before all others if
// it is older than they are.
func (m *taskModel) withSuspect(taken []string, now time.Time, n int) []string {
	all := m.ordered('s', byDue)
	if len(all) == 0 || m.tasks[all[0]].due.After(now) {
		return taken
	}
	if len(taken) < n {
		return append(taken, all[0])
	}
	if m.tasks[all[0]].due.Before(m.tasks[taken[0]].due) {
		return append(all[:1:1], taken[:n-1]...)
	}
	return taken
}

func (m *taskModel) take(ids []string, now time.Time) {
	for _, id := range ids {
		t := m.tasks[id]
		t.place, t.received, t.ends = 'l', true, now.Add(modelTaskTime)
		t.attempt++
	}
}

// goBehind puts a delivered task behind a lock, for which somebody waits.
func (m *taskModel) goBehind(id, lock string, until time.Time) {
	t := m.tasks[id]
	t.attempt--
	t.place, t.lock = 'b', lock
	if until.After(m.waits[lock]) {
		m.waits[lock] = until
	}
}

// takeBehind takes the first task behind a lock whose key is not paused. It
// returns "" if there is none.
func (m *taskModel) takeBehind(lock string, now time.Time) string {
	if m.paused[""] {
		m.waits[lock] = now
		return ""
	}
	for _, id := range m.ordered('b', byTicket) {
		if t := m.tasks[id]; t.lock == lock {
			if m.paused[t.key] {
				m.park(t)
				continue
			}
			m.take([]string{id}, now)
			return id
		}
	}
	delete(m.waits, lock)
	return ""
}

// giveUp makes the tasks behind a lock due.
func (m *taskModel) giveUp(lock string, now time.Time) {
	for _, id := range m.ordered('b', byTicket) {
		if t := m.tasks[id]; t.lock == lock {
			m.becomeDue(t, t.dueAt(now))
		}
	}
	delete(m.waits, lock)
}

// undo returns what a receive took that nobody knows of.
func (m *taskModel) undo(taken []string, now time.Time) {
	for _, id := range taken {
		m.tasks[id].attempt--
		m.becomeDue(m.tasks[id], m.tasks[id].dueAt(now))
	}
}

// collect ends the leases that are over. That counts as interruptions unless
// the server has just started.
func (m *taskModel) collect(now time.Time, started bool) {
	for _, id := range m.ordered('l', byEnds) {
		t := m.tasks[id]
		if t.ends.After(now) {
			continue
		}
		t.attempt--
		if !started {
			t.cut++
		}
		if !started && t.cut >= modelFatal {
			m.bury(t, now)
			continue
		}
		m.becomeDue(t, t.dueAt(now))
	}
}

func (m *taskModel) bury(t *modelTask, now time.Time) {
	m.deaths++
	t.place, t.died = 'z', m.deaths
	m.follow(t.key, now)
}

// follow makes the next task of a key its head.
func (m *taskModel) follow(key string, now time.Time) {
	if key == "" {
		return
	}
	delete(m.heads, key)
	for _, id := range m.ordered('o', byJoined) {
		if t := m.tasks[id]; t.key == key {
			m.heads[key] = id
			m.becomeDue(t, t.dueAt(now))
			return
		}
	}
}

// settle ends a delivery that has its lease.
func (m *taskModel) settle(id, verb string, pause time.Duration, now time.Time) {
	t := m.tasks[id]
	switch verb {
	case "ack":
		m.drop(id, now)
		if m.unique > 0 {
			m.done[id] = now.Add(m.unique)
		}
	case "dead-letter":
		m.bury(t, now)
	case "release":
		t.attempt--
		m.becomeDue(t, now)
	case "nack":
		m.becomeDue(t, now.Add(pause))
	}
}

// drop deletes a task.
func (m *taskModel) drop(id string, now time.Time) {
	key := m.tasks[id].key
	delete(m.tasks, id)
	if m.heads[key] == id {
		m.follow(key, now)
	}
}

// requeue queues a dead letter as a new task.
func (m *taskModel) requeue(id string, now time.Time) {
	t := &modelTask{key: m.tasks[id].key, ticket: m.draw(now)}
	m.tasks[id] = t
	m.join(id, t, now)
}
