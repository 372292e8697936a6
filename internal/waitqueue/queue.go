package waitqueue

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Queue has the waiters of a client. It has a line for each lock, the workers
// that poll for them, and the subscriptions that notify them.
type Queue struct {
	host          *Host
	poller        *background.Fleet
	subscriptions *subscriptions

	mu    sync.Mutex
	last  uint64            // number of the last hold that was drawn
	lines map[string]*Line  // by the lock's key in Redis
	waits map[string]*Entry // by the hold that they take
	// Holds that a message has granted, whose claims are not answered. Their
	// entries are not cancelled: that would end the reservation.
	unclaimed map[string]script.Indeterminate
	calls     map[string]*quorumWaiter // of RedLocks, by the names of their waiters at this server
	// Receivers of task queues that wait, by their names.
	receivers map[string]receiver
	// targets counts the RedLock calls and the receivers by the key about which
	// they are notified.
	targets map[string]int
}

// Host is what a queue needs from its client.
type Host struct {
	Identity lockspec.Identity
	Prefix   string // of lock names
	Driver   driver.Driver
	Tasks    *goroutines.Group
	Life     context.Context // is cancelled with the client
	Logger   *slog.Logger
	Retrier  *background.Retrier
	// Ask sends a script that takes a lock.
	Ask func(context.Context, *lockspec.Spec, script.Call) (driver.Result, script.Indeterminate)
	// Forced is called when an operator has ended a hold.
	Forced func(hold, redisKey string)
}

// New returns the queue of a client.
func New(h Host) *Queue {
	q := &Queue{
		host: &h, lines: map[string]*Line{}, waits: map[string]*Entry{},
		unclaimed: map[string]script.Indeterminate{}, calls: map[string]*quorumWaiter{},
		receivers: map[string]receiver{}, targets: map[string]int{},
	}
	q.poller = background.NewFleet(h.Life, h.Driver, h.Tasks)
	q.subscriptions = newSubscriptions(q)
	return q
}

// Close closes the connections of the poller and of the subscriptions.
func (q *Queue) Close() {
	q.poller.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range q.subscriptions.all {
		f.link.Close()
	}
}

// NewHold returns the id of a hold that no entry takes.
func (q *Queue) NewHold() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.newHold()
}

// newHold is NewHold for a caller that holds mu.
func (q *Queue) newHold() string {
	q.last++
	return q.host.Identity.Hold(q.last)
}

// Uses reports whether any call of the client is using the lock.
func (q *Queue) Uses(redisKey string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[redisKey] != nil
}

// add notes that the entry is in the queue under the ticket, and schedules a
// poll, see nextPoll. left is the time until the lock expires. If the
// subscription was confirmed or lost while the request was under way, the poll
// is due immediately.
func (q *Queue) add(w *Entry, ticket string, left time.Duration, others int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.subscriptions.use(w.Line.RedisKey)
	w.Line.remote, w.Line.held = others > 0, true
	l, s := w.Line, w.Settings
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
	q.poller.AddEarlier(l.poll, at)
}

// remove forgets an entry that was granted or abandoned.
func (q *Queue) remove(w *Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget(w)
}

// forget is remove for a caller that holds mu.
func (q *Queue) forget(w *Entry) {
	delete(q.waits, w.hold)
	if i := slices.Index(w.Line.waits, w); i >= 0 {
		w.Line.waits = slices.Delete(w.Line.waits, i, i+1)
	}
}

// NodesChanged polls immediately for every lock with queued entries, because
// the servers have changed. Calls that pause after an error make an attempt.
// Nothing is at the nodes that have gone any more.
func (q *Queue) NodesChanged(gone []driver.Node) {
	q.poller.Retire(gone)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.subscriptions.retire(gone)
	q.checkLines(func(*Line) bool { return true })
	q.checkTargets("")
	for _, w := range q.waits {
		if w.Line.err != nil || w.ticket == "" {
			w.Nudge()
		}
	}
}

// checkLines polls immediately for the chosen locks with queued entries; mu is
// held.
func (q *Queue) checkLines(chosen func(*Line) bool) {
	now := time.Now()
	for _, l := range q.lines {
		if chosen(l) {
			q.checkLine(l, now)
		}
	}
}

func (q *Queue) checkLine(l *Line, now time.Time) {
	if l.poll != nil {
		q.poller.Add(l.poll, now)
	}
}

// Notify handles a message, or the answer to a poll: an entry may take the
// lock. name is the name of the entry, or its hold. If the entry is unknown, it
// is cancelled. Its hold is not released, since it may just have been granted.
func (q *Queue) Notify(name, redisKey string) { q.notify(name, redisKey, true) }

// notify is Notify. If mayGrant is false, the message is only a hint.
func (q *Queue) notify(name, redisKey string, mayGrant bool) {
	hold, rest := lockspec.CutHold(name)
	if !strings.HasPrefix(hold, q.host.Identity.ID+":") || !strings.HasPrefix(redisKey, q.host.Prefix+"{") {
		return // no script of ours sent it
	}
	if rest == quorumWait {
		q.notifyQuorum(name, redisKey)
		return
	}
	q.mu.Lock()
	w := q.waits[hold]
	if _, granted := q.unclaimed[hold]; granted ||
		w != nil && w.Line.RedisKey == redisKey && !q.deliverOrDelay(w, mayGrant && name == w.Name) {
		q.mu.Unlock()
		return
	}
	l := q.lines[redisKey]
	if w != nil && w.Line == l {
		w.parked = false // it is about to claim, and Redis may have granted it the lock
	}
	var retained *Entry
	if l != nil && l.retained != nil && l.retained.hold == hold {
		retained, l.retained = l.retained, nil
	}
	q.mu.Unlock()
	switch {
	case retained != nil: // no call uses a retained entry
		retained.Leave()
		l.Exit()
	case w != nil && w.Line.RedisKey == redisKey:
		w.Nudge()
	case rest != "":
		q.host.Retrier.BestEffort(cancelOf(redisKey, name, false))
	}
}

// cancelOf returns a request that removes an entry from the queue, and releases
// what is reserved for it. With alsoHold, it also releases the hold that the
// entry has taken.
func cancelOf(redisKey, wait string, alsoHold bool) func(time.Time) script.Call {
	flag := 0
	if alsoHold {
		flag = 1
	}
	s := script.Call{Script: lockspec.QueueOf(wait).Cancel, Key: redisKey, Args: []any{wait, flag}}
	return func(time.Time) script.Call { return s }
}

// Cancels returns requests that cancel all queued entries. They also release
// what the entries are granted meanwhile.
func (q *Queue) Cancels() (all []script.Call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lines {
		for _, w := range l.waits {
			all = append(all, cancelOf(l.RedisKey, w.Name, true)(time.Now()))
		}
	}
	return all
}
