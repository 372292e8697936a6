package waitqueue

import "time"

// State is a snapshot of a queue, for tests.
type State struct {
	Subscribed bool // messages reach the client
	Nodes      int  // at which a subscription runs
	Channels   int  // to which the client listens, or is about to
	Waits      int  // entries that are active
	Quorum     int  // RedLock calls
	Lines      map[string]LineState
}

// LineState is a snapshot of a line.
type LineState struct {
	Waiters  []*Call // for an unfair lock, oldest first
	Resting  bool    // no request of the first waiter is under way
	Entries  int     // in Redis
	Retained *Entry
	Remote   bool // others are in the queue too
	Trouble  error
	Interval time.Duration
}

// State returns a snapshot of the queue.
func (q *Queue) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := State{Subscribed: q.subscriptions.reach(), Waits: len(q.waits), Quorum: len(q.calls), Lines: map[string]LineState{}}
	for _, f := range q.subscriptions.all {
		if s.Channels += len(f.channels); f.running {
			s.Nodes++
		}
	}
	for key, l := range q.lines {
		one := LineState{Entries: len(l.waits), Retained: l.retained, Remote: l.remote, Trouble: l.err, Interval: l.interval}
		for _, w := range l.waiters {
			one.Waiters = append(one.Waiters, w.Call)
		}
		one.Resting = len(l.waiters) > 0 && l.waiters[0].Entry != nil
		s.Lines[key] = one
	}
	return s
}
