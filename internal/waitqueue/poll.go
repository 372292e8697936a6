package waitqueue

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
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
	l, q := p.line, p.line.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(l.waits) == 0 {
		return script.Call{}, false
	}
	l.pace()
	q.subscriptions.expect(l.RedisKey)
	args := []any{q.host.Identity.ID, l.period.Milliseconds()}
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
	interval := l.notePoll(o.Err)
	p.forget(o)
	if o.Err != nil {
		return time.Now().Add(p.failed(o, interval)), true
	}
	p.pause = 0
	a := readPoll(o.Reply)
	l.noteKept(script.KeptUntil(o.Reply, 2))
	l.queue.Heartbeat(l.RedisKey, o.Sent, a.receivers)
	for _, name := range a.names {
		l.queue.Notify(name, l.RedisKey)
	}
	switch a.code {
	case script.Conflict:
		l.wakeAll()
	case script.ScanLimit:
		return time.Now(), true
	}
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	if len(l.waits) > 0 {
		l.queue.subscriptions.use(l.RedisKey) // at the node that has answered
	}
	return time.Now().Add(l.nextPoll(a.left)), true
}

// failed returns the pause after an error. While a Cluster moves the keys, it
// does not grow.
func (p *poll) failed(o driver.Result, interval time.Duration) time.Duration {
	l := p.line
	p.pause = max(interval, min(2*p.pause, MaxPause))
	switch {
	case driver.IsHalfMoved(o.Err):
		p.pause = interval
		l.wakeFirst() // of an unfair lock, a call may overtake the queue
	case !lockspec.IsRetryable(o.Err):
		l.wakeAll() // so that each call finds the error itself
	default:
		// A call has the pool, and more time to connect and for an answer.
		// It also logs what keeps it waiting.
		l.wakeFirst()
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
			p.line.queue.notify(w.name, p.line.RedisKey, false)
		}
	}
}

// nextPoll returns the pause before the next poll. left is the time until the
// lock expires, and negative if the lock is free or the time is unknown.
// queue.mu is held.
func (l *Line) nextPoll(left time.Duration) time.Duration {
	if !l.queue.subscriptions.of(l.RedisKey).reaches() {
		return l.interval + rand.N(l.interval/5+1)
	}
	pause := l.period + rand.N(l.period/20+1)
	if left >= 0 {
		pause = min(pause, left+2*time.Millisecond)
	}
	return max(pause, l.interval)
}

// notePoll records the error of a poll, or nil, and returns the poll interval.
func (l *Line) notePoll(err error) time.Duration {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	l.err = err
	return l.interval
}

// Note records the error of a request of the first waiter, or nil, for the
// waiters behind it.
func (l *Line) Note(err error) {
	// These two concern only the owner that made the request.
	if errors.Is(err, driver.ErrAbandoned) || errors.Is(err, errs.ErrLockLost) {
		return
	}
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	l.err = err
	if err == nil || errors.Is(err, errs.ErrLockAcquiredByOthers) {
		l.err, l.held = nil, true
	}
}

// Reason returns why no call of the line gets the lock, as far as it is known:
// the last error, ErrLockAcquiredByOthers, or nil.
func (l *Line) Reason() error {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	if l.err == nil && l.held {
		return errs.ErrLockAcquiredByOthers
	}
	return l.err
}

// noteKept notes until when a minimum hold keeps the lock, as Redis answered;
// the zero time if none does.
func (l *Line) noteKept(until time.Time) {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	l.kept = until
}

// KeptUntil returns until when a minimum hold keeps the lock, as Redis answered
// last; the zero time if none does.
func (l *Line) KeptUntil() time.Time {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return l.kept
}

// LastError returns the error of the client's last request for the lock, or
// nil.
func (l *Line) LastError() error {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return l.err
}

func (l *Line) wakeAll() {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	for _, w := range l.waits {
		w.crowd = true
		w.Nudge()
	}
}

func (l *Line) wakeFirst() {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	if len(l.waits) > 0 {
		l.waits[0].Nudge()
	}
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
