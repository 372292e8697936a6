package conns

import "time"

// watch is the timer of a shared connection for the calls whose time is over.
// The stream's mutex guards it. It fires when the first of the calls that were
// under way would have to leave. Nearly all calls are answered long before. So
// they change no timer, and it fires now and then.
type watch struct {
	timer *time.Timer // nil before the first call
	next  time.Time   // when it fires; zero if it does not
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// plan makes the timer fire at this time or before; mu is held.
func (s *stream) plan(at time.Time) {
	w := &s.watch
	if !w.next.IsZero() && !at.Before(w.next) {
		return
	}
	w.next = at
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(at), s.wakeLate)
		return
	}
	w.timer.Reset(time.Until(at))
}

// wakeLate wakes the calls whose time is over, and plans for the others.
func (s *stream) wakeLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.next = time.Time{}
	now := time.Now()
	for _, c := range s.written[s.first:] {
		s.wakeIfLate(c, now)
	}
	for _, e := range s.waiting {
		s.wakeIfLate(e.call, now)
	}
}

func (s *stream) wakeIfLate(c *Call, now time.Time) {
	switch {
	case now.Before(c.until):
		s.plan(c.until)
	case !c.late:
		c.late = true
		nudge(c.wake)
	}
}
