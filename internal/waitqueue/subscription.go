package waitqueue

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// subscription is the subscription of a client at one node. It has one
// connection and one goroutine for all waiters, and is started by the first
// one. A message names a lock, and the entries that may take it. Each poll of
// the client sends an empty message, as a heartbeat.
type subscription struct {
	of   *subscriptions
	link driver.Link

	// Guarded by base.mu.
	channels    map[string]*channel // by the key of the lock
	broadcast   bool                // the server refuses sharded channels: there is one for all locks
	running     bool
	retired     bool      // its node is not to be used any more
	open        bool      // there is a connection
	since       time.Time // of the first confirmation on it; zero before
	lastMessage time.Time // of the last message, or of the last confirmation
	asked       time.Time // of the first poll after that
	swept       time.Time // when unused channels were last looked for
	logged      bool      // the loss was logged
	toldMute    bool      // the missing permission was logged
}

// forcedMark precedes the hold in a message that an operator has ended it.
const forcedMark = "forced:"

// tasksMark precedes the receiver in a message that a task of its queue is due.
const tasksMark = "tasks:"

// MaxPause limits the pauses while the server answers with errors or not at
// all.
const MaxPause = time.Second

// The pauses between two attempts to subscribe are short at first, and long if
// the subscription is not permitted.
const (
	firstFeedPause  = 10 * time.Millisecond
	deniedFeedPause = 30 * time.Second
)

// start starts the subscription, unless it runs; base.mu is held. An entry
// need not wait for it: polls find what was missed, once its channel is
// confirmed.
func (f *subscription) start() {
	if !f.running {
		f.running = f.of.host.Tasks.Start(f.run)
	}
}

func (f *subscription) run() {
	pause := firstFeedPause
	for {
		err := f.link.Subscribe(f)
		if f.of.host.Life.Err() != nil {
			return
		}
		lasted, news, over := f.down()
		if news {
			f.of.host.Logger.Warn("relock: no subscription, waiters poll until there is one", "reason", err.Error())
		}
		if over {
			return
		}
		switch {
		case errors.Is(err, errs.ErrDenied):
			pause = deniedFeedPause
		case lasted > MaxPause:
			pause = firstFeedPause
		default:
			pause = min(pause, MaxPause)
		}
		timer := time.NewTimer(pause + rand.N(pause))
		select {
		case <-timer.C:
		case <-f.of.host.Life.Done():
			timer.Stop()
			return
		}
		pause *= 2
	}
}

// Open returns the channels that are used; see [driver.Listener].
func (f *subscription) Open() (all []driver.Channel) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.open, f.lastMessage = true, time.Now()
	if f.broadcast { // the server may be a newer one
		f.broadcast = false
		clear(f.channels)
	}
	f.of.audience.each(func(key string) {
		if f.of.at(key) == f {
			f.channel(key)
		}
	})
	for _, c := range f.channels {
		c.state = asked
		all = append(all, c.Channel)
	}
	return all
}

// Confirmed notes that messages to a channel arrive; see [driver.Listener].
func (f *subscription) Confirmed(of driver.Channel) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.lastMessage, f.logged = time.Now(), false
	if f.since.IsZero() {
		f.since = f.lastMessage
	}
	if c := f.named(of); c != nil && c.state != dropping {
		c.confirm()
	}
}

// Lost notes that messages to a sharded channel no longer arrive; see
// [driver.Listener].
func (f *subscription) Lost(of driver.Channel, err error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.lastMessage = time.Now()
	c := f.named(of)
	switch {
	case c == nil:
	case errors.Is(err, errs.ErrDenied) || driver.IsUnknownCommand(err):
		f.fallBack()
	case c.state != dropping:
		c.end(err != nil)
	case c.again:
		c.state, c.again = unasked, false
		c.ask()
	default:
		delete(f.channels, c.key)
	}
}

// named returns the channel of this name, or nil if it is not used any more.
func (f *subscription) named(of driver.Channel) *channel {
	key := ""
	if of.Sharded {
		key = strings.TrimSuffix(of.Name, ":"+f.of.host.Identity.ID)
	}
	return f.channels[key]
}

// fallBack replaces the sharded channels by the one for all locks, to which
// scripts send what nobody receives on a sharded channel. That one may be
// refused too, so those that are confirmed count as lost.
func (f *subscription) fallBack() {
	f.broadcast = true
	for _, c := range f.channels {
		c.lose()
	}
	clear(f.channels)
	f.channel("").ask()
}

// down notes that the connection is lost. It returns how long messages reached
// the client, whether the loss is news, and whether the subscription is over:
// nobody uses a channel, or its node. The next use starts it again. The caller
// logs the loss without base.mu: a log handler that blocks would delay all
// calls of the client.
func (f *subscription) down() (lasted time.Duration, news, over bool) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.retired {
		return 0, false, true
	}
	news, f.logged = !f.logged, true
	if f.open = false; !f.since.IsZero() {
		lasted, f.since = time.Since(f.since), time.Time{}
	}
	for key, c := range f.channels {
		c.lose()
		if !f.of.uses(c) {
			delete(f.channels, key)
		}
	}
	f.running = len(f.channels) > 0
	return lasted, news, !f.running
}

// Message handles a message; see [driver.Listener].
func (f *subscription) Message(text string) {
	f.of.mu.Lock()
	f.lastMessage = time.Now()
	f.of.mu.Unlock()
	wait, redisKey, ok := strings.Cut(text, " ")
	switch hold, forced := strings.CutPrefix(wait, forcedMark); {
	case !ok:
	case forced:
		f.of.host.Forced(hold, redisKey)
	case strings.HasPrefix(wait, tasksMark):
		f.of.audience.wake(wait)
	default:
		for one := range strings.SplitSeq(wait, ",") {
			f.of.audience.Notify(one, redisKey)
		}
	}
}
