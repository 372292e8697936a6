package waitqueue

import (
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
)

// subscriptions are those of a client, one for each node at which it waits.
// They are guarded by base.mu.
type subscriptions struct {
	*base
	audience audience

	sharded bool
	linger  time.Duration
	one     *subscription // of the only node; nil if there may be several
	byNode  map[driver.Node]*subscription
}

// audience is who gets the messages. Its functions are called with base.mu
// held, except for the last two.
type audience interface {
	// awaits reports whether any call may need messages about a key.
	awaits(redisKey string) bool
	// each calls f for the keys about which any call may need messages soon. It
	// may do so twice for one.
	each(f func(redisKey string))
	// missed is called when messages on a channel may have been missed. key is
	// that of the channel. If it is "", here reports whether the channel has
	// the messages about a key.
	missed(key string, here func(redisKey string) bool)
	// Notify handles a message to a waiter, wake one to a receiver of tasks.
	Notify(name, redisKey string)
	wake(name string)
}

func newSubscriptions(b *base, to audience) *subscriptions {
	s := &subscriptions{base: b, audience: to, linger: linger, byNode: map[driver.Node]*subscription{}}
	s.sharded = lockspec.ClientName(b.host.Identity.ID) != b.host.Identity.ID
	if only, ok := b.host.Driver.(driver.Node); ok {
		s.one = s.to(only)
	}
	return s
}

// at returns the subscription at the node of a key.
func (s *subscriptions) at(redisKey string) *subscription {
	if s.one != nil {
		return s.one
	}
	return s.to(s.host.Driver.Known(redisKey))
}

func (s *subscriptions) to(n driver.Node) *subscription {
	f := s.byNode[n]
	if f == nil {
		f = &subscription{of: s, link: n.Link(), channels: map[string]*channel{}}
		s.byNode[n] = f
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
	if f.of.sharded && !f.broadcast {
		return redisKey
	}
	return ""
}

// channel returns the channel for a lock, and makes it if there is none. Then
// it drops those that were not used for long.
func (f *subscription) channel(redisKey string) *channel {
	key, id := f.keyOf(redisKey), f.of.host.Identity.ID
	c := f.channels[key]
	if c == nil {
		f.sweep(time.Now())
		c = &channel{at: f, key: key, Channel: driver.Channel{Name: f.of.host.Prefix + id}}
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
	linger := f.of.linger
	if now.Sub(f.swept) < linger/30 {
		return
	}
	f.swept = now
	for _, c := range f.channels {
		switch {
		case c.state == dropping:
		case f.of.uses(c):
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
		if f := s.byNode[n]; f != nil {
			delete(s.byNode, n)
			f.retired, f.open = true, false
			for _, c := range f.channels {
				c.state = unasked
				c.epoch++
			}
			f.link.Close()
		}
	}
}

// uses reports whether any call may need a message on the channel; mu is held.
func (s *subscriptions) uses(c *channel) bool {
	return c.key == "" || s.audience.awaits(c.key) && s.of(c.key) == c
}

// missed notes that messages on the channel may have been missed; mu is held.
func (s *subscriptions) missed(c *channel) {
	s.audience.missed(c.key, func(redisKey string) bool { return s.of(redisKey) == c })
}
