package waitqueue

import (
	"time"

	"github.com/relock-go/relock/internal/script"
)

// quorumWait is what the names of the waits of a RedLock end in.
const quorumWait = "q"

// quorumWaiter is a call for a RedLock, as the messages of one node know it.
type quorumWaiter struct {
	notify  func()
	wakeups wakeupLimit
}

// Listen returns the name of a new wait; messages for it call notify. Each
// listen has its unlisten.
func (q *Queue) Listen(notify func()) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	name := q.host.Identity.Hold(q.last) + ":" + quorumWait
	q.calls[name] = &quorumWaiter{notify: notify}
	return name
}

// Unlisten ends a wait of Listen.
func (q *Queue) Unlisten(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.calls, name)
}

// notifyQuorum notifies a RedLock waiter. If that waiter is gone, the next one
// is notified.
func (q *Queue) notifyQuorum(name, redisKey string) {
	q.mu.Lock()
	w := q.calls[name]
	now := w != nil && q.admit(&w.wakeups, func() { q.notifyQuorum(name, redisKey) })
	q.mu.Unlock()
	switch {
	case w == nil:
		q.Unwait(name, redisKey)
	case now:
		w.notify()
	}
}

// Unwait takes a wait out of a node's list, for up to a second. One that stays
// goes at a release, or with the list.
func (q *Queue) Unwait(name, redisKey string) {
	s := script.Call{Script: script.RedLockUnwait, Key: redisKey, Args: []any{name}}
	q.host.Retrier.BestEffort(func(time.Time) script.Call { return s })
}

// Epoch returns the epoch of the subscription.
func (q *Queue) Epoch() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.feed.epoch
}

// Listens takes in how many subscribers heard the heartbeat of a request, which
// was sent at sent in this epoch of the subscription. It reports whether a
// message would reach the client, and subscribes if it has not yet. Below -1
// there is no list to be in.
func (q *Queue) Listens(sent time.Time, heard int64, epoch int) bool {
	if heard < -1 {
		return false
	}
	q.feed.pulse(sent, heard)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.feed.start()
	return q.feed.reaches() && heard > 0 && q.feed.epoch == epoch
}
