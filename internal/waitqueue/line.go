package waitqueue

import (
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/script"
)

// maxSending limits how many calls for one lock send at the same time. Ten
// thousand waiters must not open ten thousand connections.
const maxSending = 32

// Line is all calls of one client for one lock. It exists while there is any
// call.
type Line struct {
	RedisKey string
	queue    *Queue
	key      string        // as the user named it
	gate     chan struct{} // has a value for each call that is sending

	// Guarded by queue.mu.
	calls      int
	retained   *Entry          // kept for a caller that returns; see Yield
	retainedAt time.Time       // when it was retained
	held       bool            // others have held the lock since the line began, as Redis answered
	kept       time.Time       // see KeptUntil
	remote     bool            // others are in the queue too, as Redis answered
	waits      []*Entry        // in the queue, oldest first
	poll       *background.Job // nil until there is a queued entry
	interval   time.Duration
	period     time.Duration
	err        error // of the last poll or request
}

// Enter returns the line of the lock, with one more call. Each Enter has its
// Exit.
func (q *Queue) Enter(key, redisKey string) *Line {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[redisKey]
	if l == nil {
		l = &Line{RedisKey: redisKey, queue: q, key: key, gate: make(chan struct{}, maxSending)}
		q.lines[redisKey] = l
	}
	l.calls++
	return l
}

// EnterUsed is Enter if another call of the client is using the lock. If none
// is, it returns nil.
func (q *Queue) EnterUsed(redisKey string) *Line {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[redisKey]
	if l != nil {
		l.calls++
	}
	return l
}

// Exit removes a call. When the last call exits, the line is deleted.
func (l *Line) Exit() {
	q := l.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	l.calls--
	if l.calls > 0 {
		return
	}
	delete(q.lines, l.RedisKey)
	if l.poll != nil {
		q.poller.Drop(l.poll)
	}
}

// HasOthers reports whether other clients are in the queue too, as Redis
// answered.
func (l *Line) HasOthers() bool {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return l.remote
}

// pace polls at the rate of the most demanding entry. There must be at least
// one, and queue.mu is held. It is called right before a poll is sent, because
// the poll names the period after which the server expects the next one.
func (l *Line) pace() {
	l.interval, l.period = l.waits[0].Settings.Poll, l.waits[0].Settings.Period()
	for _, w := range l.waits[1:] {
		l.interval, l.period = min(l.interval, w.Settings.Poll), min(l.period, w.Settings.Period())
	}
}

// notePolled notes that a poll may put an entry back for as long as it is late.
// It reports whether the entry still waits, or claims what it was granted.
func (l *Line) notePolled(w listed, late script.Indeterminate) bool {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	if before, granted := l.queue.unclaimed[w.hold]; granted {
		l.queue.unclaimed[w.hold] = before.Merge(late)
		return true
	}
	if l.queue.waits[w.hold] == nil && (l.retained == nil || l.retained.hold != w.hold) {
		return false
	}
	w.entry.polled = w.entry.polled.Merge(late)
	return true
}
