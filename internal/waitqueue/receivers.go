package waitqueue

import "time"

// receiver is a receiver of a task queue that waits.
type receiver struct {
	redisKey string
	wake     func()
}

// ListenForTasks calls wake when a message names the receiver of a task queue
// with this key, and when a channel for it is confirmed or lost, until it is
// called with nil. wake must not block.
func (q *Queue) ListenForTasks(redisKey, name string, wake func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.receivers[name]; ok {
		delete(q.receivers, name)
		q.target(redisKey, -1)
	}
	if wake == nil {
		return
	}
	q.receivers[name] = receiver{redisKey, wake}
	q.target(redisKey, 1)
	if q.subscriptions.one != nil {
		q.subscriptions.use(redisKey) // otherwise Reached does it, once the node of the key is known
	}
}

// target counts the receivers of tasks and the RedLock calls that messages
// about a key may be for; mu is held.
func (q *Queue) target(redisKey string, n int) {
	if q.targets[redisKey] += n; q.targets[redisKey] == 0 {
		delete(q.targets, redisKey)
	}
}

// checkTargets notifies RedLock calls and receivers of tasks that have their
// messages on the channel of a key, or all if it is ""; mu is held.
func (q *Queue) checkTargets(key string) {
	for _, w := range q.calls {
		if key == "" || w.redisKey == key {
			w.notify()
		}
	}
	for _, r := range q.receivers {
		if key == "" || r.redisKey == key {
			r.wake()
		}
	}
}

// wakeReceiver notifies a receiver. One that no longer waits has left the
// server's list, and the server has notified another one.
func (q *Queue) wakeReceiver(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, ok := q.receivers[name]; ok {
		r.wake()
	}
}

// Reached reports whether messages about the key reach the client, as far as it
// knows. It subscribes if the client has not done so yet.
func (q *Queue) Reached(redisKey string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.subscriptions.use(redisKey).reaches()
}

// Heartbeat notes how many receivers a heartbeat for the key had, which was
// sent at sent, or -1 if it may not be published.
func (q *Queue) Heartbeat(redisKey string, sent time.Time, receivers int64) {
	if q.noteHeartbeat(redisKey, sent, receivers) {
		q.host.Logger.Warn("relock: no permission to publish, waiters poll")
	}
}

// noteHeartbeat is Heartbeat without the log. It reports whether it is news
// that the scripts may not publish.
func (q *Queue) noteHeartbeat(redisKey string, sent time.Time, receivers int64) (news bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.subscriptions.of(redisKey)
	if c == nil {
		return false
	}
	c.hear(sent, receivers)
	news = c.mute && c.state == confirmed && !c.at.toldMute
	c.at.toldMute = c.at.toldMute || news
	return news
}
