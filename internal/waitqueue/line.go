package waitqueue

import (
	"time"

	"github.com/relock-go/relock/internal/background"
)

// maxSending limits how many calls for one lock send at the same time. Ten
// thousand waiters must not open ten thousand connections.
const maxSending = 32

// Line is all calls of one client for one lock. It exists while there is any
// call.
type Line struct {
	RedisKey string
	lines    *lines
	key      string        // as the user named it
	gate     chan struct{} // has a value for each call that is sending
	answers

	// Guarded by base.mu.
	calls      int
	retained   *Entry          // kept for a caller that returns; see Yield
	retainedAt time.Time       // when it was retained
	waits      []*Entry        // in the queue, oldest first
	poll       *background.Job // nil until there is a queued entry
	interval   time.Duration
	period     time.Duration
}

// Exit removes a call. When the last call exits, the line is deleted.
func (l *Line) Exit() {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	if l.calls--; l.calls > 0 {
		return
	}
	delete(l.lines.byKey, l.RedisKey)
	if l.poll != nil {
		l.lines.poller.Drop(l.poll)
	}
}

// check polls immediately if there are queued entries; base.mu is held.
func (l *Line) check(now time.Time) {
	if l.poll != nil {
		l.lines.poller.Add(l.poll, now)
	}
}

// retains reports whether the line has a retained entry that takes the hold;
// base.mu is held.
func (l *Line) retains(hold string) bool { return l.retained != nil && l.retained.hold == hold }

// takeRetained takes the retained entry out of the line. It returns nil if
// there is none; base.mu is held.
func (l *Line) takeRetained() (place *Entry) {
	place, l.retained = l.retained, nil
	return place
}

// wake wakes the n oldest calls.
func (l *Line) wake(n int) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	for _, w := range l.waits[:min(n, len(l.waits))] {
		w.crowd = w.crowd || n > 1
		w.Nudge()
	}
}
