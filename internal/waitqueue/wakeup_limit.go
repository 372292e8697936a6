package waitqueue

import "time"

// An attempt costs the server a script, and any client that may publish can
// forge a message. So messages cause one attempt in checkPause, after
// checksAhead attempts without a pause. Those are needed for an unfair lock:
// for its first 10 ms, an entry is only notified, and newcomers are often
// quicker. After that, a real message brings the lock.
const (
	checkPause  = 5 * time.Millisecond
	checksAhead = 8
)

// wakeupLimit limits how often messages notify a call. It is guarded by
// base.mu.
type wakeupLimit struct {
	next time.Time // no message is delivered before
	due  bool      // a message came within the pause, and is delivered when that ends
}

// allow reports whether a message is delivered now. If not, deliver is called
// when the pause ends, once for all messages until then: any of them may be the
// one that matters. The call sees it as a late message. base.mu is held.
func (u *wakeupLimit) allow(b *base, deliver func()) bool {
	now := time.Now()
	pause := u.next.Sub(now)
	if pause <= 0 {
		if first := now.Add(-checksAhead * checkPause); first.After(u.next) {
			u.next = first
		}
		u.next = u.next.Add(checkPause)
		return true
	}
	if !u.due {
		u.due = b.host.Tasks.Start(func() { u.deliverLater(b, pause, deliver) })
	}
	return false
}

func (u *wakeupLimit) deliverLater(b *base, pause time.Duration, deliver func()) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.host.Life.Done():
		return
	}
	b.mu.Lock()
	u.due = false
	b.mu.Unlock()
	deliver()
}
