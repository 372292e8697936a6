package waitqueue

import (
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// channel is what a client listens to at one node: a sharded channel for each
// lock, or one for all locks. It is guarded by base.mu.
type channel struct {
	driver.Channel

	at      *subscription
	key     string // of the lock; "" if it is for all locks
	state   channelState
	epoch   int       // changes whenever the channel is confirmed or lost
	since   time.Time // of the confirmation
	mute    bool      // the scripts may not publish
	unheard bool      // a heartbeat since the confirmation had no receiver
	refused bool      // by the server, since it was confirmed last
	again   bool      // it is used again while it is being dropped
	unused  time.Time // when it was first seen without a use; zero if it is used
}

type channelState int

const (
	unasked   channelState = iota // there is no connection
	asked                         // there is no answer yet
	confirmed                     // messages arrive
	ended                         // by the server; a poll finds the node that has the key now
	dropping                      // nobody used it for long
)

// linger is how long a sharded channel is kept after its last use. Callers
// usually return.
const linger = 30 * time.Second

// reaches reports whether a message would reach the client. c may be nil.
func (c *channel) reaches() bool {
	return c != nil && c.state == confirmed && !c.mute && !c.unheard
}

// ask subscribes to the channel, unless that was done already. It is asked for
// by Open if there is no connection.
func (c *channel) ask() {
	switch c.state {
	case dropping:
		c.again = true
	case unasked, ended:
		if c.state = unasked; c.at.open {
			c.state = asked
			c.at.link.Listen(c.Channel)
		}
	}
	c.at.start()
}

// drop ends a channel that nobody uses. It stays until the server confirms
// that: a new one of the same name could be taken for it.
func (c *channel) drop() {
	if c.state != confirmed {
		delete(c.at.channels, c.key)
		return
	}
	c.state, c.again = dropping, false
	c.epoch++
	c.at.link.Ignore(c.Channel)
}

// confirm notes that messages reach the client from now on. Polls find what was
// missed before.
func (c *channel) confirm() {
	c.state, c.since, c.refused, c.unheard = confirmed, time.Now(), false, false
	c.epoch++
	c.at.of.missed(c)
}

// end notes that the server has ended the channel, or refused it. The poll that
// finds the present node of the key asks for it again. A server that goes on
// refusing is asked after each poll, so these are no quicker then.
func (c *channel) end(refused bool) {
	again := c.refused && refused
	c.state, c.refused = ended, refused
	c.epoch++
	if !again {
		c.at.of.missed(c)
	}
	if !c.at.of.uses(c) { // or its key is at another node
		delete(c.at.channels, c.key)
	}
}

// lose notes that there is no connection for the channel any more. Polls find
// what is missed from now on.
func (c *channel) lose() {
	up := c.state == confirmed
	if c.state = unasked; up {
		c.epoch++
		c.at.of.missed(c)
	}
}

// hear notes how many receivers a heartbeat had. The request with it was sent
// at sent. If the channel should have received heartbeats, but its connection
// was silent for long, that is dead without an error, and is reset. A sharded
// channel that the server does not know is asked for again first: its key may
// be moving, and heartbeats are sent at another node. hear reports whether it
// is news that the scripts may not publish.
func (c *channel) hear(sent time.Time, receivers int64) (news bool) {
	f := c.at
	c.mute = receivers < 0
	if c.state == confirmed && sent.After(c.since) {
		c.unheard = receivers == 0
	}
	if f.asked.Before(f.lastMessage) {
		f.asked = sent
	}
	silent := f.open && !c.mute && sent.Sub(f.asked) > maxSilence
	switch {
	case !silent || c.state != confirmed && c.state != asked:
	case c.Sharded && c.unheard && c.state == confirmed:
		c.state = asked
		f.link.Listen(c.Channel)
	default:
		f.link.Cut()
	}
	news = c.mute && c.state == confirmed && !f.toldMute
	f.toldMute = f.toldMute || news
	return news
}

// maxSilence is how long a subscription may be silent while polls are answered.
const maxSilence = 3 * time.Second

// Epoch is a time in which a channel was neither confirmed nor lost.
type Epoch struct {
	of *channel
	n  int
}

// now returns the present epoch; base.mu is held. c may be nil.
func (c *channel) now() Epoch {
	if c == nil {
		return Epoch{}
	}
	return Epoch{c, c.epoch}
}
