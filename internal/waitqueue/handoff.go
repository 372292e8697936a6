package waitqueue

import (
	"slices"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// What packages localwait and lease do with an entry. That of the first local
// waiter is parked while no request of it is under way. If a hand-off takes it
// and nobody else waits, it is retained: the caller usually returns soon.

// Park parks the entry, unless a message has granted it the lock. A message
// about the entry ends that: its call is about to claim, and Redis may have
// granted it the lock. The local waiter ends it by forgetting the entry.
func (w *Entry) Park() {
	w.Line.lines.mu.Lock()
	defer w.Line.lines.mu.Unlock()
	w.parked = !w.grantedByMessage
}

// IsParked reports whether a hand-off may take the entry, which may be nil.
func (w *Entry) IsParked() bool {
	if w == nil {
		return false
	}
	w.Line.lines.mu.Lock()
	defer w.Line.lines.mu.Unlock()
	return w.parked
}

// Yield takes a parked entry from its call, which a hand-off has chosen, and
// reports whether it did so. The entry may be nil. If it is the last of its
// line, it is retained. Such an entry belongs to no call, so a remote hand-off
// to it is passed on immediately.
func (w *Entry) Yield(last bool) bool {
	if w == nil {
		return false
	}
	l := w.Line
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	if !w.parked {
		return false
	}
	w.parked = false
	if last {
		w.forget()
		l.retained, l.retainedAt = w, time.Now()
		l.calls++ // keeps the line while the entry is retained
	}
	return true
}

// Restore takes the retained entry for a call with settings s. It returns the
// entry as place if the call can use it, otherwise as left, to be cancelled. No
// poll was sent for a retained entry, so after a while its client may look
// crashed. Then the next poll is due immediately.
func (l *Line) Restore(s *lockspec.Spec) (place, left *Entry) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	place = l.takeRetained()
	if place == nil {
		return nil, nil
	}
	l.calls--
	if !place.Suits(s) {
		return nil, place
	}
	l.lines.waits[place.hold] = place
	l.waits = slices.Insert(l.waits, 0, place)
	at := time.Now()
	if at.Sub(l.retainedAt) < l.interval {
		at = at.Add(l.nextPoll(-1))
	}
	l.lines.poller.AddEarlier(l.poll, at)
	return place, nil
}

// TakeRetained takes the retained entry out of the line, so that a release can
// remove it from the queue. It returns nil if there is none.
func (a *lines) TakeRetained(redisKey string) *Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.byKey[redisKey]; l != nil {
		return l.takeRetained()
	}
	return nil
}

// LeaveWith ends a retained entry after the release that was to remove it. The
// argument is the error of that release. If the release failed, or a request or
// a poll of the entry is indeterminate, the entry is cancelled. The entry may
// be nil.
func (w *Entry) LeaveWith(released error) {
	if w == nil {
		return
	}
	if released != nil || w.indeterminate.Exists() || w.polled.Exists() {
		w.Leave()
	}
	w.Line.Exit()
}
