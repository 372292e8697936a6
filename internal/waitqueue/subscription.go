package waitqueue

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
)

// subscription is the subscription of a client: one connection and one
// goroutine for all its waits, started by the first one. A message says which
// waits may take which lock; each poll of the client sends an empty one, as a
// sign of life.
type subscription struct {
	queue   *Queue
	link    driver.Link
	channel string

	// Guarded by queue.mu.
	started  bool
	up       bool      // confirmed
	mute     bool      // the scripts may not publish
	epoch    int       // changes whenever the subscription comes or goes
	since    time.Time // the confirmation
	heard    time.Time // the last message, or the confirmation
	asked    time.Time // the first poll after that
	told     bool      // that it failed, in the log
	toldMute bool
}

// forcedMark stands before the hold in a message that an operator ended it.
const forcedMark = "forced:"

// MaxPause is how far pauses grow while the server answers with errors or not
// at all.
const MaxPause = time.Second

// The pauses between two attempts to subscribe: short at first; long when it is
// not permitted.
const (
	firstFeedPause  = 10 * time.Millisecond
	deniedFeedPause = 30 * time.Second
)

// start begins to listen, once; queue.mu is held. A wait need not wait for it:
// what it missed it learns of when it is there.
func (f *subscription) start() {
	if !f.started {
		f.started = f.queue.host.Tasks.Start(f.run)
	}
}

func (f *subscription) run() {
	pause := firstFeedPause
	for {
		err := f.link.Subscribe(f.channel, f.confirmed, f.message)
		if f.queue.host.Life.Err() != nil {
			return
		}
		switch lasted := f.lost(err); {
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
		case <-f.queue.host.Life.Done():
			timer.Stop()
			return
		}
		pause *= 2
	}
}

// confirmed: from now on a message reaches us. All that was missed before is
// looked at.
func (f *subscription) confirmed() {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	f.since = time.Now()
	f.up, f.told, f.heard = true, false, f.since
	f.epoch++
	f.queue.lookAll()
}

// lost: nothing reaches us any more. It returns how long something did.
func (f *subscription) lost(err error) time.Duration {
	lasted, news := f.down()
	if news {
		f.queue.host.Logger.Warn("relock: no subscription, waiters poll until there is one", "reason", err.Error())
	}
	return lasted
}

// down says how long something reached us, and whether that it does no more is
// news. What logs must not hold queue.mu: a handler that blocks would keep all
// calls of the client up.
func (f *subscription) down() (lasted time.Duration, news bool) {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	news, f.told = !f.told, true
	if !f.up {
		return 0, news
	}
	f.up = false
	f.epoch++
	f.queue.lookAll()
	return time.Since(f.since), news
}

// reaches reports whether a message would reach the client; queue.mu is held.
func (f *subscription) reaches() bool { return f.up && !f.mute }

func (f *subscription) message(text string) {
	f.queue.mu.Lock()
	f.heard = time.Now()
	f.queue.mu.Unlock()
	wait, redisKey, ok := strings.Cut(text, " ")
	switch hold, forced := strings.CutPrefix(wait, forcedMark); {
	case !ok:
	case forced:
		f.queue.host.Forced(hold, redisKey)
	default:
		for one := range strings.SplitSeq(wait, ",") {
			f.queue.Notify(one, redisKey)
		}
	}
}

// pulse takes what a poll that was sent at sent says of its sign of life. A
// subscription that has heard nothing for long, though it should have, is on a
// connection that died without a word.
func (f *subscription) pulse(sent time.Time, receivers int64) {
	if f.beat(sent, receivers) {
		f.queue.host.Logger.Warn("relock: no permission to publish, waiters poll")
	}
}

// beat reports whether it is news that the scripts may not publish.
func (f *subscription) beat(sent time.Time, receivers int64) (news bool) {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	f.mute = receivers < 0
	news = f.mute && f.up && !f.toldMute
	f.toldMute = f.toldMute || news
	if f.asked.Before(f.heard) {
		f.asked = sent
	}
	if f.up && !f.mute && sent.Sub(f.asked) > maxSilence {
		f.link.Cut()
	}
	return news
}

// maxSilence is how long a subscription may be silent while polls are answered.
const maxSilence = 3 * time.Second
