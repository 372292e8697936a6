package waitqueue

import (
	"slices"
	"time"
)

// DropAfter sets how long a sharded channel is kept without a use.
func (q *Queue) DropAfter(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.linger = d
}

// PauseFor starts a pause of length d for the messages to all entries.
func (q *Queue) PauseFor(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waits {
		w.wakeups.next = time.Now().Add(d)
	}
}

// CheckPause and ChecksAhead limit the attempts that messages cause.
const (
	CheckPause  = checkPause
	ChecksAhead = checksAhead
)

// State is a snapshot of a queue.
type State struct {
	Subscribed bool // messages reach the client
	Nodes      int  // at which a subscription runs
	Channels   int  // to which the client listens, or is about to
	Targets    int  // RedLock calls and receivers of tasks
	Lines      map[string]LineState
}

// LineState is a snapshot of a line.
type LineState struct {
	Resting  bool // a hand-off may take the entry of the first local waiter
	Interval time.Duration
}

// State returns a snapshot of the queue.
func (q *Queue) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := State{Subscribed: q.reach(), Targets: len(q.byName), Lines: map[string]LineState{}}
	for _, f := range q.byNode {
		if s.Channels += len(f.channels); f.running {
			s.Nodes++
		}
	}
	for key, l := range q.byKey {
		resting := slices.ContainsFunc(l.waits, func(w *Entry) bool { return w.parked })
		s.Lines[key] = LineState{Resting: resting, Interval: l.interval}
	}
	return s
}

// reach reports whether messages of all nodes at which the client waits reach
// it.
func (s *subscriptions) reach() bool {
	some := false
	for _, f := range s.byNode {
		for _, c := range f.channels {
			if !c.reaches() {
				return false
			}
			some = true
		}
	}
	return some
}
