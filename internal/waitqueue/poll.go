package waitqueue

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// poll is a line's task for the poller: while somebody waits, the client shows
// once a period that it lives, asks what became of its waits, and puts those
// back that were taken for gone. While no message can reach it, it asks every
// poll interval.
type poll struct {
	line   *Line
	pause  time.Duration // after an error
	listed []listed      // in the one under way
}

type listed struct{ hold, name string }

// maxListed is how many waits a poll names, the oldest ones.
const maxListed = 64

// Next lists the waits that have no request of their own under way: a client
// that can poll but not take what it is given then loses each turn once, not
// for ever.
func (p *poll) Next(time.Time) (script.Call, bool) {
	l, q := p.line, p.line.Queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(l.waits) == 0 {
		return script.Call{}, false
	}
	l.pace()
	args := []any{q.host.Identity.ID, l.period.Milliseconds()}
	p.listed = p.listed[:0]
	scripts := l.waits[0].Settings.Kind.Queue
	for _, w := range l.waits {
		if !w.sending && w.Settings.Kind.Queue == scripts {
			args = append(args, w.Name, w.ticket)
			p.listed = append(p.listed, listed{w.hold, w.Name})
		}
		if len(p.listed) == maxListed {
			break
		}
	}
	return script.Call{Script: scripts.Poll, Key: l.redisKey, Args: args}, true
}

func (p *poll) Limit() time.Duration { return background.RetryLimit }

func (p *poll) Handle(o driver.Result) (time.Time, bool) {
	l := p.line
	interval := l.notePoll(o.Err)
	if o.Err != nil {
		p.pause = max(interval, min(2*p.pause, MaxPause))
		switch {
		case !lockspec.IsRetryable(o.Err):
			l.wakeAll() // to see for themselves
		case o.Sent.IsZero() || o.Unanswered():
			l.wakeFirst() // calls have more time, to connect and for an answer, and the pool
		}
		return time.Now().Add(p.pause + rand.N(p.pause/5+1)), true
	}
	p.pause = 0
	p.forget()
	a := readPoll(o.Reply)
	l.Queue.feed.pulse(o.Sent, a.heard)
	for _, name := range a.names {
		l.Queue.Notify(name, l.redisKey)
	}
	switch a.code {
	case script.Foreign:
		l.wakeAll()
	case script.More:
		return time.Now(), true
	}
	l.Queue.mu.Lock()
	defer l.Queue.mu.Unlock()
	return time.Now().Add(l.nextPoll(a.left)), true
}

// forget takes those waits out again that ended while the poll was under way,
// which may have put them back.
func (p *poll) forget() {
	for _, w := range p.listed {
		if !p.line.knows(w.hold) {
			p.line.Queue.Notify(w.name, p.line.redisKey)
		}
	}
}

// nextPoll is how long to wait for the next poll, when the lock ends by itself
// after left; queue.mu is held.
func (l *Line) nextPoll(left time.Duration) time.Duration {
	if !l.Queue.feed.reaches() {
		return l.interval + rand.N(l.interval/5+1)
	}
	pause := l.period + rand.N(l.period/20+1)
	if left >= 0 {
		pause = min(pause, left+2*time.Millisecond)
	}
	return max(pause, l.interval)
}

// notePoll keeps why a poll failed, or nil, and returns the poll interval.
func (l *Line) notePoll(err error) time.Duration {
	l.Queue.mu.Lock()
	defer l.Queue.mu.Unlock()
	l.trouble = err
	return l.interval
}

// Note notes what a request of the first seat has met, for those behind it.
func (l *Line) Note(err error) {
	if errors.Is(err, driver.ErrAbandoned) || errors.Is(err, errs.ErrLockLost) { // of its own owner
		return
	}
	l.Queue.mu.Lock()
	defer l.Queue.mu.Unlock()
	l.trouble = err
	if err == nil || errors.Is(err, errs.ErrLockAcquiredByOthers) {
		l.trouble, l.held = nil, true
	}
}

// Reason is what is known of why nobody in the line gets on: trouble, that
// others hold the lock, or nothing.
func (l *Line) Reason() error {
	l.Queue.mu.Lock()
	defer l.Queue.mu.Unlock()
	if l.trouble == nil && l.held {
		return errs.ErrLockAcquiredByOthers
	}
	return l.trouble
}

// LastTrouble is why the client's last request for the lock failed, or nil.
func (l *Line) LastTrouble() error {
	l.Queue.mu.Lock()
	defer l.Queue.mu.Unlock()
	return l.trouble
}

func (l *Line) wakeAll() {
	l.Queue.mu.Lock()
	defer l.Queue.mu.Unlock()
	for _, w := range l.waits {
		w.crowd = true
		w.Nudge()
	}
}

func (l *Line) wakeFirst() {
	l.Queue.mu.Lock()
	defer l.Queue.mu.Unlock()
	if len(l.waits) > 0 {
		l.waits[0].Nudge()
	}
}

// polled is the answer to a poll.
type polled struct {
	code  int64
	names []string      // waits that may have the lock, or holds
	left  time.Duration // below 0 when the lock is free
	heard int64
}

func readPoll(reply any) polled {
	values, err := driver.Values(reply, nil)
	if err != nil || len(values) < 4 {
		return polled{left: -1}
	}
	code, err1 := driver.Int64(values[0], nil)
	names, err2 := driver.Strings(append(values[1:2:2], values[4:]...), nil)
	left, err3 := driver.Int64(values[2], nil)
	heard, err4 := driver.Int64(values[3], nil)
	if errors.Join(err1, err2, err3, err4) != nil {
		return polled{left: -1}
	}
	if names[0] == "" {
		names = names[1:]
	}
	return polled{code, names, time.Duration(left) * time.Millisecond, heard}
}
