package waitqueue

import (
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Queue has the waiters of a client in Redis. It has a line for each lock, the
// workers that poll for them, and the subscriptions that notify them.
type Queue struct {
	*base
	*lines
	*targets
	*subscriptions
}

// New returns the queue of a client.
func New(h Host) *Queue {
	q := &Queue{base: &base{host: h}}
	q.subscriptions = newSubscriptions(q.base, q)
	q.lines = newLines(q.base, q.subscriptions)
	q.targets = newTargets(q.base, q.lines)
	return q
}

// Close closes the connections of the poller and of the subscriptions.
func (q *Queue) Close() {
	q.poller.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range q.byNode {
		f.link.Close()
	}
}

// NodesChanged polls immediately for every lock with queued entries, because
// the servers have changed. Calls that pause after an error make an attempt.
// Nothing is at the nodes that have gone any more.
func (q *Queue) NodesChanged(gone []driver.Node) {
	q.poller.Retire(gone)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retire(gone)
	q.missed("", func(string) bool { return true })
	q.retry()
}

// ListenForTasks calls wake when a message names the receiver of a task queue
// with this key, and when a channel for it is confirmed or lost, until it is
// called with nil. wake must not block.
func (q *Queue) ListenForTasks(redisKey, name string, wake func()) {
	q.Unlisten(tasksMark + name)
	if wake == nil {
		return
	}
	q.Listen(redisKey, tasksMark+name, wake)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.one != nil {
		q.use(redisKey) // otherwise Reached does it, once the node of the key is known
	}
}

// awaits reports whether any call is using the lock, or targets listen for it.
func (q *Queue) awaits(redisKey string) bool {
	return q.byKey[redisKey] != nil || q.counts[redisKey] > 0
}

// each calls f for the keys of queued entries and of targets.
func (q *Queue) each(f func(redisKey string)) {
	for key, l := range q.byKey {
		if len(l.waits) > 0 {
			f(key)
		}
	}
	for key := range q.counts {
		f(key)
	}
}

// missed polls immediately for every lock with queued entries that has its
// messages on the channel, and notifies the targets.
func (q *Queue) missed(key string, here func(redisKey string) bool) {
	if key == "" {
		q.lines.check(here)
	} else if l := q.byKey[key]; l != nil {
		l.check(time.Now())
	}
	q.targets.check(key)
}
