package waitqueue

import (
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
)

// subscriptions are those of a client, one for each node at which it waits.
// They are guarded by queue.mu.
type subscriptions struct {
	queue   *Queue
	sharded bool
	linger  time.Duration
	one     *subscription // of the only node; nil if there may be several
	all     map[driver.Node]*subscription
}

func newSubscriptions(q *Queue) *subscriptions {
	s := &subscriptions{queue: q, linger: linger, all: map[driver.Node]*subscription{}}
	s.sharded = lockspec.ClientName(q.host.Identity.ID) != q.host.Identity.ID
	if only, ok := q.host.Driver.(driver.Node); ok {
		s.one = s.to(only)
	}
	return s
}

// at returns the subscription at the node of a key.
func (s *subscriptions) at(redisKey string) *subscription {
	if s.one != nil {
		return s.one
	}
	return s.to(s.queue.host.Driver.Known(redisKey))
}

func (s *subscriptions) to(n driver.Node) *subscription {
	f := s.all[n]
	if f == nil {
		f = &subscription{queue: s.queue, link: n.Link(), channels: map[string]*channel{}}
		s.all[n] = f
	}
	return f
}

// of returns the channel for a key at the node of the key, or nil if it is not
// used yet.
func (s *subscriptions) of(redisKey string) *channel {
	f := s.at(redisKey)
	return f.channels[f.keyOf(redisKey)]
}

// use subscribes to the channel for a key at the node of the key, unless that
// was done already, and returns it. It is called after an answer of that node.
func (s *subscriptions) use(redisKey string) *channel {
	c := s.at(redisKey).channel(redisKey)
	c.ask()
	return c
}

// expect is use before a request: the key may have come to this node. A channel
// that the node has ended is only asked for again after an answer.
func (s *subscriptions) expect(redisKey string) {
	if c := s.of(redisKey); c == nil || c.state != ended {
		s.use(redisKey)
	}
}

// keyOf returns the key of the channel that has the messages about a lock.
func (f *subscription) keyOf(redisKey string) string {
	if f.queue.subscriptions.sharded && !f.broadcast {
		return redisKey
	}
	return ""
}

// channel returns the channel for a lock, and makes it if there is none. Then
// it drops those that were not used for long.
func (f *subscription) channel(redisKey string) *channel {
	key, id := f.keyOf(redisKey), f.queue.host.Identity.ID
	c := f.channels[key]
	if c == nil {
		f.sweep(time.Now())
		c = &channel{at: f, key: key, Channel: driver.Channel{Name: f.queue.host.Prefix + id}}
		if key != "" {
			c.Channel = driver.Channel{Name: key + ":" + id, Sharded: true}
		}
		f.channels[key] = c
	}
	c.unused = time.Time{}
	return c
}

// sweep drops the channels that were not used for long. It looks for them from
// time to time only, since there may be thousands.
func (f *subscription) sweep(now time.Time) {
	linger := f.queue.subscriptions.linger
	if now.Sub(f.swept) < linger/30 {
		return
	}
	f.swept = now
	for _, c := range f.channels {
		switch {
		case c.state == dropping:
		case f.queue.uses(c):
			c.unused = time.Time{}
		case c.unused.IsZero():
			c.unused = now
		case now.Sub(c.unused) >= linger:
			c.drop()
		}
	}
}

// retire ends the subscriptions at nodes that are not to be used any more.
func (s *subscriptions) retire(gone []driver.Node) {
	for _, n := range gone {
		if f := s.all[n]; f != nil {
			delete(s.all, n)
			f.retired, f.open = true, false
			for _, c := range f.channels {
				c.state = unasked
				c.epoch++
			}
			f.link.Close()
		}
	}
}

func (f *subscription) isRetired() bool {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	return f.retired
}

// uses reports whether any call of the client may need a message on the
// channel; mu is held.
func (q *Queue) uses(c *channel) bool {
	if c.key == "" {
		return true
	}
	return (q.lines[c.key] != nil || q.targets[c.key] > 0) && q.subscriptions.of(c.key) == c
}

// used returns the keys about which any call may need messages; mu is held.
func (q *Queue) used() map[string]bool {
	all := map[string]bool{}
	for key, l := range q.lines {
		if len(l.waits) > 0 {
			all[key] = true
		}
	}
	for key := range q.targets {
		all[key] = true
	}
	return all
}

// checkChannel polls immediately for every lock with queued entries that has
// its messages on the channel. It notifies RedLock calls and receivers of
// tasks; mu is held.
func (q *Queue) checkChannel(c *channel) {
	if c.key == "" {
		q.checkLines(func(l *Line) bool { return q.subscriptions.of(l.RedisKey) == c })
	} else if l := q.lines[c.key]; l != nil {
		q.checkLine(l, time.Now())
	}
	q.checkTargets(c.key)
}
