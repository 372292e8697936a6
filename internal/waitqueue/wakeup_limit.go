package waitqueue

import "time"

// A look costs the server a script, and anybody who may publish can forge a
// message. So messages make a wait take one look in lookPause, after looksAhead
// without a pause: for its first 10ms a wait for an unfair lock is only
// notified, and newcomers are often quicker. After that a real message brings
// the lock.
const (
	LookPause  = 5 * time.Millisecond
	LooksAhead = 8
)

// PauseFor makes messages for all waits come within a pause for so long. It is
// for tests.
func (q *Queue) PauseFor(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waits {
		w.wakeups.next = time.Now().Add(d)
	}
}

// wakeupLimit limits how often messages notify a wait. It is guarded by queue.mu.
type wakeupLimit struct {
	next time.Time // before that none is delivered
	due  bool      // one came within the pause, and is delivered when that ends
}

// admit reports whether a message is delivered now. Else deliver is called when
// the pause ends, once for all messages until then: each of them may be the one
// that counts. For the wait that is a message that comes late. queue.mu is
// held.
func (q *Queue) admit(u *wakeupLimit, deliver func()) bool {
	now := time.Now()
	pause := u.next.Sub(now)
	if pause <= 0 {
		if first := now.Add(-LooksAhead * LookPause); first.After(u.next) {
			u.next = first
		}
		u.next = u.next.Add(LookPause)
		return true
	}
	if !u.due {
		u.due = q.host.Tasks.Start(func() { q.deliverLater(u, pause, deliver) })
	}
	return false
}

func (q *Queue) deliverLater(u *wakeupLimit, pause time.Duration, deliver func()) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.host.Life.Done():
		return
	}
	q.mu.Lock()
	u.due = false
	q.mu.Unlock()
	deliver()
}
