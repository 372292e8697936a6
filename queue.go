package relock

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// queue is what a client keeps of its waits: a line for each lock, the worker that polls for them, and the
// subscription over which they are woken. The order of waits is in Redis alone, and a message is never more than a
// hint: only the answer of a script is believed.
type queue struct {
	client *Client
	poller *background.Worker
	feed   *feed

	mu    sync.Mutex
	last  uint64                // number of the last wait
	lines map[string]*line      // by the lock's key in Redis
	waits map[string]*queued    // by the hold that they take
	calls map[string]*redWaiter // of RedLocks, by what their waits are called at this client's server
	// Those that a call was told of, and has neither made a lease of nor given back.
	underway map[*transfer]struct{}
}

func newQueue(c *Client) *queue {
	q := &queue{client: c, lines: map[string]*line{}, waits: map[string]*queued{}, calls: map[string]*redWaiter{}, underway: map[*transfer]struct{}{}}
	q.poller = background.NewWorker(c.driver, c.tasks, c.life.Done())
	q.feed = &feed{queue: q, link: c.driver.Link(), channel: c.config.prefix + c.identity.ID}
	return q
}

func (q *queue) close() {
	q.poller.Close()
	q.feed.link.Close()
}

// draw returns the id of the hold that a new wait of the call takes.
func (q *queue) draw(w *queued) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	hold := q.client.identity.Hold(q.last)
	w.wakeups = &wakeups{}
	q.waits[hold] = w
	return hold
}

// newHold returns the id of a hold that no wait takes.
func (q *queue) newHold() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	return q.client.identity.Hold(q.last)
}

// maxSending is how many calls for one lock send at once. Ten thousand waiters must not open ten thousand
// connections.
const maxSending = 32

// line is the calls of one client that wait for one lock. It lives as long as there are any.
type line struct {
	queue    *queue
	key      string // as the user named it
	redisKey string
	gate     chan struct{} // of the calls that are sending

	// Guarded by queue.mu.
	calls    int
	seats    []*seat         // of an unfair lock, oldest first
	place    *queued         // that is spared, see unseat
	spared   time.Time       // since when
	held     bool            // others have held the lock since the line began, as Redis has said
	remote   bool            // others wait as well, as far as Redis has said
	waits    []*queued       // that are in the queue, oldest first
	poll     *background.Job // nil until there are any
	interval time.Duration
	period   time.Duration
	trouble  error // of the last poll
}

// enter returns the lock's line. Each enter has its exit.
func (q *queue) enter(key, redisKey string) *line {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[redisKey]
	if l == nil {
		l = &line{queue: q, key: key, redisKey: redisKey, gate: make(chan struct{}, maxSending)}
		q.lines[redisKey] = l
	}
	l.calls++
	return l
}

// has says that somebody of the client is about the lock.
func (q *queue) has(redisKey string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[redisKey] != nil
}

func (l *line) exit() {
	q := l.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	l.calls--
	if l.calls > 0 {
		return
	}
	delete(q.lines, l.redisKey)
	if l.poll != nil {
		q.poller.Drop(l.poll)
	}
}

// add notes that a wait is in the queue, under the ticket, and sees to it that it is polled for: when the lock ends
// by itself after left, and at once when the subscription came or went while the request was under way.
func (q *queue) add(w *queued, ticket string, left time.Duration, others int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.feed.start()
	w.line.remote, w.line.held = others > 0, true
	l, s := w.line, w.settings
	if w.ticket == "" {
		l.waits = append(l.waits, w)
	}
	w.ticket = ticket
	if l.poll == nil {
		l.poll, l.interval, l.period = background.NewJob(&poll{line: l}), s.Poll, s.Period()
	}
	l.interval, l.period = min(l.interval, s.Poll), min(l.period, s.Period())
	at := time.Now()
	if w.epoch == q.feed.epoch {
		at = at.Add(l.nextPoll(left))
	}
	q.poller.AddEarlier(l.poll, at)
}

// remove forgets a wait that was granted or given up.
func (q *queue) remove(w *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget(w)
}

// forget is remove with mu held.
func (q *queue) forget(w *queued) {
	delete(q.waits, w.hold)
	if i := slices.Index(w.line.waits, w); i >= 0 {
		w.line.waits = slices.Delete(w.line.waits, i, i+1)
	}
}

// pace has the line's polls come as often as the call needs them that needs them most, of those that it has, which are one at least; mu is held. It is for the poll
// that is about to be sent: the server expects the next one after the period that it is told.
func (l *line) pace() {
	l.interval, l.period = l.waits[0].settings.Poll, l.waits[0].settings.Period()
	for _, w := range l.waits[1:] {
		l.interval, l.period = min(l.interval, w.settings.Poll), min(l.period, w.settings.Period())
	}
}

// lookAll polls for every lock that somebody waits for, and makes calls for RedLocks look; mu is held.
func (q *queue) lookAll() {
	now := time.Now()
	for _, l := range q.lines {
		if l.poll != nil {
			q.poller.Add(l.poll, now)
		}
	}
	for _, w := range q.calls {
		w.nudge()
	}
}

// hear takes a message or the answer to a poll: the lock may be had by a wait, named by itself or by its hold. A
// wait that nobody knows any more leaves its place, but not a hold, which may have been granted to it.
func (q *queue) hear(name, redisKey string) {
	hold, rest := lockspec.CutHold(name)
	if !strings.HasPrefix(hold, q.client.identity.ID+":") || !strings.HasPrefix(redisKey, q.client.config.prefix+"{") {
		return // not from a script of ours
	}
	if rest == redWait {
		q.knock(name, redisKey)
		return
	}
	q.mu.Lock()
	w := q.waits[hold]
	if w != nil && w.line.redisKey == redisKey && !q.admit(w.wakeups, func() { q.hear(lockspec.WaitName(hold, w.settings), redisKey) }) {
		q.mu.Unlock()
		return
	}
	l := q.lines[redisKey]
	if l != nil && len(l.seats) > 0 && l.seats[0].place == w {
		l.seats[0].place = nil // it is about to ask, and may have been given the lock
	}
	var spared *queued
	if l != nil && l.place != nil && l.place.hold == hold {
		spared, l.place = l.place, nil
	}
	q.mu.Unlock()
	switch {
	case spared != nil: // nobody wants it
		spared.leave()
		l.exit()
	case w != nil && w.line.redisKey == redisKey:
		w.nudge()
	case rest != "":
		q.client.retrier.BestEffort(cancelOf(redisKey, name, false))
	}
}

// knows says that a wait is not over, or is spared.
func (l *line) knows(hold string) bool {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return l.queue.waits[hold] != nil || l.place != nil && l.place.hold == hold
}

// cancelOf takes a wait out of the queue, gives back what is reserved for it, and with alsoHold the hold that it has
// taken.
func cancelOf(redisKey, wait string, alsoHold bool) func(time.Time) script.Call {
	flag := 0
	if alsoHold {
		flag = 1
	}
	s := script.Call{Script: lockspec.QueueOf(wait).Cancel, Key: redisKey, Args: []any{wait, flag}}
	return func(time.Time) script.Call { return s }
}

// passOn goes on with the hand-over of a script that had to stop at what one may look at.
func (c *Client) passOn(after script.Call) {
	s := script.Call{Script: lockspec.MutexQueue.Cancel, Key: after.Key, Args: []any{"", 0}}
	if after.Script.ReadWrite {
		s.Script = lockspec.RWQueue.Cancel
	}
	c.retrier.BestEffort(func(time.Time) script.Call { return s })
}
