package waitqueue

import (
	"time"

	"github.com/relock-go/relock/internal/background"
)

// MaxSending is how many calls for one lock send together. Ten thousand waiters
// must not open ten thousand connections.
const MaxSending = 32

// Line is the calls of one client that wait for one lock. It lives as long as
// there are any.
type Line struct {
	Queue    *Queue
	key      string // as the user named it
	redisKey string
	gate     chan struct{} // of the calls that are sending

	// Guarded by queue.mu.
	calls      int
	waiters    []*Waiter       // of an unfair lock, oldest first
	retained   *Entry          // that is kept for a caller that returns, see removeGranted
	retainedAt time.Time       // since when
	held       bool            // others have held the lock since the line began, as Redis has said
	remote     bool            // others wait as well, as far as Redis has said
	waits      []*Entry        // that are in the queue, oldest first
	poll       *background.Job // nil until there are any
	interval   time.Duration
	period     time.Duration
	trouble    error // of the last poll
}

// Enter returns the lock's line, for one more call. Each Enter has its Exit.
func (q *Queue) Enter(key, redisKey string) *Line {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[redisKey]
	if l == nil {
		l = &Line{Queue: q, key: key, redisKey: redisKey, gate: make(chan struct{}, MaxSending)}
		q.lines[redisKey] = l
	}
	l.calls++
	return l
}

// Exit takes a call out. With the last one the line is forgotten.
func (l *Line) Exit() {
	q := l.Queue
	q.mu.Lock()
	defer q.mu.Unlock()
	l.calls--
	if l.calls > 0 {
		return
	}
	delete(q.lines, l.redisKey)
	if l.poll != nil {
		q.poller.Drop(l.poll)
	}
}

// pace polls at the rate of the most demanding waiter; there is at least one,
// and mu is held. It is for the poll that is about to be sent, which names the
// period after which the server expects the next one.
func (l *Line) pace() {
	l.interval, l.period = l.waits[0].Settings.Poll, l.waits[0].Settings.Period()
	for _, w := range l.waits[1:] {
		l.interval, l.period = min(l.interval, w.Settings.Poll), min(l.period, w.Settings.Period())
	}
}

// knows reports whether a wait is not over, or its entry is retained.
func (l *Line) knows(hold string) bool {
	l.Queue.mu.Lock()
	defer l.Queue.mu.Unlock()
	return l.Queue.waits[hold] != nil || l.retained != nil && l.retained.hold == hold
}
