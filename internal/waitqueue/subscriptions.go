package waitqueue

import "github.com/relock-go/relock/internal/driver"

// subscriptions are those of a client, one for each node at which it waits.
// They are guarded by queue.mu.
type subscriptions struct {
	queue *Queue
	one   *subscription // of the only node; nil if there may be several
	all   map[driver.Node]*subscription
}

func newSubscriptions(q *Queue) *subscriptions {
	s := &subscriptions{queue: q, all: map[driver.Node]*subscription{}}
	if only, ok := q.host.Driver.(driver.Node); ok {
		s.one = s.to(only)
	}
	return s
}

// of returns the subscription at the node of a key.
func (s *subscriptions) of(redisKey string) *subscription {
	if s.one != nil {
		return s.one
	}
	return s.to(s.queue.host.Driver.Known(redisKey))
}

func (s *subscriptions) to(n driver.Node) *subscription {
	f := s.all[n]
	if f == nil {
		f = &subscription{queue: s.queue, link: n.Link(), channel: s.queue.host.Prefix + s.queue.host.Identity.ID}
		s.all[n] = f
	}
	return f
}

// retire ends the subscriptions at nodes that are not to be used any more.
func (s *subscriptions) retire(gone []driver.Node) {
	for _, n := range gone {
		if f := s.all[n]; f != nil {
			delete(s.all, n)
			f.retired, f.up = true, false
			f.epoch++
			f.link.Close()
		}
	}
}

func (f *subscription) isRetired() bool {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	return f.retired
}

// reach reports whether messages of all nodes at which the client waits reach
// it.
func (s *subscriptions) reach() bool {
	some := false
	for _, f := range s.all {
		if f.started && !f.reaches() {
			return false
		}
		some = some || f.started
	}
	return some
}

// Epoch is a time in which a subscription was neither confirmed nor lost.
type Epoch struct {
	of *subscription
	n  int
}

// now returns the present epoch; queue.mu is held.
func (f *subscription) now() Epoch { return Epoch{f, f.epoch} }
