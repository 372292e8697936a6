package relocktest

import (
	"cmp"
	"slices"
	"time"
)

// firstLocked returns the first task that is due and not blocked: by an earlier
// task of its key, by a pause, or, if it was interrupted, by another one that
// was. It returns nil if there is none.
func (q *Queue) firstLocked() *task {
	if q.paused || q.settings.Limit > 0 && q.flyingLocked() >= q.settings.Limit {
		return nil
	}
	all, heads := q.dueLocked(), q.headsLocked()
	for _, t := range all {
		switch {
		case t.running != nil || t.Key != "" && heads[t.Key] != t:
		case q.isPausedLocked(t.Key):
			t.aside = true
		case t.interruptions > 0 && q.suspectedLocked():
		default:
			return t
		}
	}
	return nil
}

// suspectedLocked reports whether a task that was interrupted is in flight, and
// has not lived for a lease. Each may end the process, so they run in turn.
func (q *Queue) suspectedLocked() bool {
	t := q.suspect
	return t != nil && t.running != nil && time.Since(t.received) < q.settings.Lease
}

// flyingLocked returns how many tasks are in flight.
func (q *Queue) flyingLocked() (n int) {
	for _, t := range q.tasks {
		if t.running != nil {
			n++
		}
	}
	return n
}

// headsLocked returns the first live task of each key.
func (q *Queue) headsLocked() map[string]*task {
	heads := map[string]*task{}
	for _, t := range q.tasks {
		if head := heads[t.Key]; t.isLive() && t.line > 0 && (head == nil || t.line < head.line) {
			heads[t.Key] = t
		}
	}
	return heads
}

// dueLocked returns the live tasks that are due, in their order. Those that
// were delayed join their keys.
func (q *Queue) dueLocked() (all []*task) {
	now := time.Now()
	for _, t := range q.tasks {
		if t.isLive() && !t.due.After(now) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *task) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.place, b.place)) })
	for _, t := range all {
		if t.line == 0 {
			t.line = q.nextLocked()
		}
	}
	return all
}
