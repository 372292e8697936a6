package waitqueue

import (
	"time"

	"github.com/relock-go/relock/internal/script"
)

// quorumWait is the suffix of the names of RedLock waiters.
const quorumWait = "q"

// quorumWaiter is a RedLock call, as the target of the messages of one node.
type quorumWaiter struct {
	redisKey string
	notify   func()
	wakeups  wakeupLimit
}

// Listen registers a RedLock waiter for a key and returns its name. Messages
// for it call notify. Each Listen has its Unlisten.
func (q *Queue) Listen(redisKey string, notify func()) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	name := q.host.Identity.Hold(q.last) + ":" + quorumWait
	q.calls[name] = &quorumWaiter{redisKey: redisKey, notify: notify}
	q.target(redisKey, 1)
	return name
}

// Unlisten removes a waiter that Listen has registered.
func (q *Queue) Unlisten(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.calls[name]; w != nil {
		delete(q.calls, name)
		q.target(w.redisKey, -1)
	}
}

// notifyQuorum notifies a RedLock waiter. If that waiter is gone, the next one
// is notified.
func (q *Queue) notifyQuorum(name, redisKey string) {
	q.mu.Lock()
	w := q.calls[name]
	now := w != nil && q.allowWake(&w.wakeups, func() { q.notifyQuorum(name, redisKey) })
	q.mu.Unlock()
	switch {
	case w == nil:
		q.Unwait(name, redisKey)
	case now:
		w.notify()
	}
}

// Unwait removes a waiter from the list of a node. The request is retried for
// up to a second. A waiter that stays is removed by a release, or with the
// list.
func (q *Queue) Unwait(name, redisKey string) {
	s := script.Call{Script: script.RedLockUnwait, Key: redisKey, Args: []any{name}}
	q.host.Retrier.BestEffort(func(time.Time) script.Call { return s })
}

// Epoch returns the epoch of the channel for a key at the node of the key.
func (q *Queue) Epoch(redisKey string) Epoch {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.subscriptions.of(redisKey).now()
}

// Listens reports whether a message about the key would reach the client. It
// notes how many receivers the heartbeat of a request had. That was sent at
// sent, in this epoch of the channel. If receivers is below -1, there is
// no list for the waiter. Listens subscribes if the client has not done so yet.
func (q *Queue) Listens(redisKey string, sent time.Time, receivers int64, epoch Epoch) bool {
	if receivers < -1 {
		return false
	}
	q.Heartbeat(redisKey, sent, receivers)
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.subscriptions.use(redisKey)
	return c.reaches() && receivers > 0 && c.now() == epoch
}
