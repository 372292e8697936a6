package relock

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"
)

// poll is a line's task for the poller: while somebody waits, the client shows once a period that it lives, asks what
// became of its waits, and puts those back that were taken for gone. While no message can reach it, it asks every
// poll interval.
type poll struct {
	line  *line
	pause time.Duration // after an error
}

// maxListed is how many waits a poll names, the oldest ones.
const maxListed = 64

// next lists the waits that have no request of their own under way: a client that can poll but not take what it is
// given then loses each turn once, not for ever.
func (p *poll) next(time.Time) (scripted, bool) {
	l, q := p.line, p.line.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(l.waits) == 0 {
		return scripted{}, false
	}
	args := []any{q.client.identity.id, l.period.Milliseconds()}
	for _, w := range l.waits {
		if !w.sending {
			args = append(args, w.name, w.ticket)
		}
		if len(args) == 2+2*maxListed {
			break
		}
	}
	return scripted{pollScript, l.redisKey, args}, true
}

func (p *poll) limit() time.Duration { return cleanLimit }

func (p *poll) took(o outcome) (time.Time, bool) {
	l := p.line
	interval := l.note(o.err)
	if o.err != nil {
		p.pause = max(interval, min(2*p.pause, maxPause))
		if !IsRetryableErr(o.err) {
			l.wakeAll() // to see for themselves
		}
		return time.Now().Add(p.pause + rand.N(p.pause/5+1)), true
	}
	p.pause = 0
	a := readPoll(o.reply)
	l.queue.feed.pulse(o.sent, a.heard)
	switch {
	case a.code == answerAlien:
		l.wakeAll()
	case a.code == answerMore:
		return time.Now(), true
	case a.name != "":
		l.queue.hear(a.name, l.redisKey)
	}
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return time.Now().Add(l.nextPoll(a.left)), true
}

// nextPoll is how long to wait for the next poll, when the lock ends by itself after left; queue.mu is held.
func (l *line) nextPoll(left time.Duration) time.Duration {
	if !l.queue.feed.reaches() {
		return l.interval + rand.N(l.interval/5+1)
	}
	pause := l.period + rand.N(l.period/20+1)
	if left >= 0 {
		pause = min(pause, left+2*time.Millisecond)
	}
	return max(pause, l.interval)
}

// note keeps why a poll failed, or nil, and returns the poll interval.
func (l *line) note(err error) time.Duration {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	l.trouble = err
	return l.interval
}

func (l *line) wakeAll() {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	for _, w := range l.waits {
		w.crowd = true
		w.nudge()
	}
}

// polled is the answer to a poll.
type polled struct {
	code  int64
	name  string
	left  time.Duration // below 0 when the lock is free
	heard int64
}

func readPoll(reply any) polled {
	values, err := redis.Values(reply, nil)
	if err != nil || len(values) != 4 {
		return polled{left: -1}
	}
	code, err1 := redis.Int64(values[0], nil)
	name, err2 := redis.String(values[1], nil)
	left, err3 := redis.Int64(values[2], nil)
	heard, err4 := redis.Int64(values[3], nil)
	if errors.Join(err1, err2, err3, err4) != nil {
		return polled{left: -1}
	}
	return polled{code, name, time.Duration(left) * time.Millisecond, heard}
}
