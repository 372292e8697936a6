package waitqueue

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// poll is the job of a line for the poller, sent once a period while any entry
// is queued. It is a heartbeat of the client, and it returns the state of the
// client's entries. It puts entries back that the server removed as stale.
// While no message can reach the client, it is sent every poll interval.
type poll struct {
	line   *Line
	pause  time.Duration // after an error
	listed []listed      // in the poll under way
}

// listed is an entry and the names that it had then.
type listed struct {
	entry      *Entry
	hold, name string
}

// maxListed limits how many entries a poll lists. It lists the oldest ones.
const maxListed = 64

// Next lists the entries whose request is not under way. So a client that can
// poll but not claim loses each turn once only.
func (p *poll) Next(time.Time) (script.Call, bool) {
	l, a := p.line, p.line.lines
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(l.waits) == 0 {
		return script.Call{}, false
	}
	l.pace()
	a.channels.expect(l.RedisKey)
	args := []any{a.host.Identity.ID, l.period.Milliseconds()}
	p.listed = p.listed[:0]
	scripts := l.waits[0].Settings.Kind.Queue
	for _, w := range l.waits {
		if !w.sending && w.Settings.Kind.Queue == scripts {
			args = append(args, w.Name, w.ticket)
			p.listed = append(p.listed, listed{w, w.hold, w.Name})
		}
		if len(p.listed) == maxListed {
			break
		}
	}
	return script.Call{Script: scripts.Poll, Key: l.RedisKey, Args: args}, true
}

// Key returns the key of the lock.
func (p *poll) Key() string { return p.line.RedisKey }

func (p *poll) Limit() time.Duration { return background.RetryLimit }

func (p *poll) Handle(o driver.Result) (time.Time, bool) {
	l := p.line
	l.note(func(now *Answer) { now.Err = o.Err })
	p.forget(o)
	if o.Err != nil {
		return time.Now().Add(p.failed(o)), true
	}
	p.pause = 0
	a := readPoll(o.Reply)
	l.note(func(now *Answer) { now.Kept = script.KeptUntil(o.Reply, 2) })
	l.lines.channels.Heartbeat(l.RedisKey, o.Sent, a.receivers)
	for _, name := range a.names {
		l.lines.notify(name, l.RedisKey, true)
	}
	switch a.code {
	case script.Conflict:
		l.wake(math.MaxInt)
	case script.ScanLimit:
		return time.Now(), true
	}
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	if len(l.waits) > 0 {
		l.lines.channels.use(l.RedisKey) // at the node that has answered
	}
	return time.Now().Add(l.nextPoll(a.left)), true
}

// failed returns the pause after an error. While a Cluster moves the keys, it
// does not grow.
func (p *poll) failed(o driver.Result) time.Duration {
	l := p.line
	l.lines.mu.Lock()
	interval := l.interval
	l.lines.mu.Unlock()
	p.pause = max(interval, min(2*p.pause, MaxPause))
	switch {
	case driver.IsHalfMoved(o.Err):
		p.pause = interval
		l.wake(1) // of an unfair lock, a call may overtake the queue
	case !lockspec.IsRetryable(o.Err):
		l.wake(math.MaxInt) // so that each call finds the error itself
	default:
		// A call has the pool, and more time to connect and for an answer.
		// It also logs what keeps it waiting.
		l.wake(1)
	}
	return p.pause + rand.N(p.pause/5+1)
}

// forget cancels the entries that ended while the poll was under way, because
// the poll may have put them back. If a copy of the poll may come yet, each
// cancel is repeated until it can't, and the other entries keep that in mind.
func (p *poll) forget(o driver.Result) {
	late := script.Indeterminate{}.Add(o)
	if o.Err != nil && !late.Exists() {
		return // it was not executed
	}
	for _, w := range p.listed {
		switch {
		case p.line.notePolled(w, late):
		case late.Exists():
			w.entry.cancelStray(w.name, late)
		default:
			p.line.lines.notify(w.name, p.line.RedisKey, false)
		}
	}
}

// add notes that the entry is in the queue under the ticket, and schedules a
// poll, see nextPoll. left is the time until the lock expires. If the
// subscription was confirmed or lost while the request was under way, the poll
// is due immediately.
func (l *Line) add(w *Entry, ticket string, left time.Duration, others int64) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	c, s := l.lines.channels.use(l.RedisKey), w.Settings
	l.note(func(now *Answer) { now.Others, now.Held = others > 0, true })
	if w.ticket == "" {
		l.waits = append(l.waits, w)
	}
	w.ticket = ticket
	if l.poll == nil {
		l.poll, l.interval, l.period = background.NewJob(&poll{line: l}), s.Poll, s.Period()
	}
	l.interval, l.period = min(l.interval, s.Poll), min(l.period, s.Period())
	at := time.Now()
	if w.epoch == c.now() || c.epoch == 0 { // before its confirmation there is nothing to miss
		at = at.Add(l.nextPoll(left))
	}
	l.lines.poller.AddEarlier(l.poll, at)
}

// nextPoll returns the pause before the next poll. left is the time until the
// lock expires, and negative if the lock is free or the time is unknown.
// base.mu is held.
func (l *Line) nextPoll(left time.Duration) time.Duration {
	if !l.lines.channels.of(l.RedisKey).reaches() {
		return l.interval + rand.N(l.interval/5+1)
	}
	pause := l.period + rand.N(l.period/20+1)
	if left >= 0 {
		pause = min(pause, left+2*time.Millisecond)
	}
	return max(pause, l.interval)
}

// pace polls at the rate of the most demanding entry. There must be at least
// one, and base.mu is held. It is called right before a poll is sent, because
// the poll names the period after which the server expects the next one.
func (l *Line) pace() {
	l.interval, l.period = l.waits[0].Settings.Poll, l.waits[0].Settings.Period()
	for _, w := range l.waits[1:] {
		l.interval, l.period = min(l.interval, w.Settings.Poll), min(l.period, w.Settings.Period())
	}
}

// notePolled notes that a poll may put an entry back for as long as it is late.
// It reports whether the entry still waits, or claims what it was granted.
func (l *Line) notePolled(w listed, late script.Indeterminate) bool {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	if before, granted := l.lines.unclaimed[w.hold]; granted {
		l.lines.unclaimed[w.hold] = before.Merge(late)
		return true
	}
	if l.lines.waits[w.hold] == nil && !l.retains(w.hold) {
		return false
	}
	w.entry.polled = w.entry.polled.Merge(late)
	return true
}

// polled is the answer to a poll.
type polled struct {
	code      int64
	names     []string      // entries that may take the lock, or holds
	left      time.Duration // until the lock expires; negative if it is free
	receivers int64         // receivers of the heartbeat; -1 if it may not be published
}

func readPoll(reply any) polled {
	values, err := driver.Values(reply, nil)
	if err != nil || len(values) < 4 {
		return polled{left: -1}
	}
	code, err1 := driver.Int64(values[0], nil)
	names, err2 := driver.Strings(append(values[1:2:2], values[4:]...), nil)
	left, err3 := driver.Int64(values[2], nil)
	receivers, err4 := driver.Int64(values[3], nil)
	if errors.Join(err1, err2, err3, err4) != nil {
		return polled{left: -1}
	}
	if names[0] == "" {
		names = names[1:]
	}
	return polled{code, names, time.Duration(left) * time.Millisecond, receivers}
}
