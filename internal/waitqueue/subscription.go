package waitqueue

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
)

// subscription is the subscription of a client at one node. It has one
// connection and one goroutine for all waiters, and is started by the first
// one. A message names a
// lock, and the entries that may take it. Each poll of the client sends an
// empty message, as a heartbeat.
type subscription struct {
	queue   *Queue
	link    driver.Link
	channel string

	// Guarded by queue.mu.
	started     bool
	retired     bool      // its node is not to be used any more
	up          bool      // confirmed
	mute        bool      // the scripts may not publish
	epoch       int       // changes whenever the subscription is confirmed or lost
	since       time.Time // of the confirmation
	lastMessage time.Time // of the last message, or of the confirmation
	asked       time.Time // of the first poll after that
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

// start starts the subscription, once; queue.mu is held. An entry need not wait
// for it: polls find what was missed, once the subscription is confirmed.
func (f *subscription) start() {
	if !f.started {
		f.started = f.queue.host.Tasks.Start(f.run)
	}
}

func (f *subscription) run() {
	pause := firstFeedPause
	for {
		err := f.link.Subscribe(f.channel, f.confirmed, f.message)
		if f.queue.host.Life.Err() != nil || f.isRetired() {
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

// confirmed notes that messages reach the client from now on. Polls find what
// was missed before.
func (f *subscription) confirmed() {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	f.since = time.Now()
	f.up, f.logged, f.lastMessage = true, false, f.since
	f.epoch++
	f.queue.checkAll(f)
}

// lost notes that messages no longer reach the client. It returns how long they
// did.
func (f *subscription) lost(err error) time.Duration {
	lasted, news := f.down()
	if news {
		f.queue.host.Logger.Warn("relock: no subscription, waiters poll until there is one", "reason", err.Error())
	}
	return lasted
}

// down returns how long messages reached the client, and whether the loss is
// news. The caller logs it without queue.mu: a log handler that blocks would
// delay all calls of the client.
func (f *subscription) down() (lasted time.Duration, news bool) {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	news, f.logged = !f.logged, true
	if !f.up {
		return 0, news
	}
	f.up = false
	f.epoch++
	f.queue.checkAll(f)
	return time.Since(f.since), news
}

// reaches reports whether a message would reach the client; queue.mu is held.
func (f *subscription) reaches() bool { return f.up && !f.mute }

func (f *subscription) message(text string) {
	f.queue.mu.Lock()
	f.lastMessage = time.Now()
	f.queue.mu.Unlock()
	wait, redisKey, ok := strings.Cut(text, " ")
	switch hold, forced := strings.CutPrefix(wait, forcedMark); {
	case !ok:
	case forced:
		f.queue.host.Forced(hold, redisKey)
	case strings.HasPrefix(wait, tasksMark):
		f.queue.wakeReceiver(wait[len(tasksMark):])
	default:
		for one := range strings.SplitSeq(wait, ",") {
			f.queue.Notify(one, redisKey)
		}
	}
}

// heartbeat notes how many receivers a heartbeat had. The poll with it was sent
// at sent. If the subscription should have received heartbeats, but was silent
// for long, its connection is dead without an error. Then it is reset.
func (f *subscription) heartbeat(sent time.Time, receivers int64) {
	if f.noteHeartbeat(sent, receivers) {
		f.queue.host.Logger.Warn("relock: no permission to publish, waiters poll")
	}
}

// noteHeartbeat is pulse without the log. It reports whether it is news that
// the scripts may not publish.
func (f *subscription) noteHeartbeat(sent time.Time, receivers int64) (news bool) {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	f.mute = receivers < 0
	news = f.mute && f.up && !f.toldMute
	f.toldMute = f.toldMute || news
	if f.asked.Before(f.lastMessage) {
		f.asked = sent
	}
	if f.up && !f.mute && sent.Sub(f.asked) > maxSilence {
		f.link.Cut()
	}
	return news
}

// maxSilence is how long a subscription may be silent while polls are answered.
const maxSilence = 3 * time.Second
