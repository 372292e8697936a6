package waitqueue

import "time"

// ListenForTasks calls wake when a message names the receiver of a task queue
// with this key, and when a subscription is confirmed or lost, until it is
// called with nil. wake must not block.
func (q *Queue) ListenForTasks(redisKey, receiver string, wake func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if wake == nil {
		delete(q.receivers, receiver)
		return
	}
	q.receivers[receiver] = wake
	if f := q.subscriptions.one; f != nil {
		f.start() // otherwise Reached does it, once the node of the key is known
	}
}

// wakeReceiver notifies a receiver. One that no longer waits has left the
// server's list, and the server has notified another one.
func (q *Queue) wakeReceiver(receiver string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if wake := q.receivers[receiver]; wake != nil {
		wake()
	}
}

// Reached reports whether messages about the key reach the client, as far as it
// knows. It subscribes if the client has not done so yet.
func (q *Queue) Reached(redisKey string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.subscriptions.of(redisKey)
	f.start()
	return f.reaches()
}

// Heartbeat notes how many receivers a heartbeat for the key had, which was
// sent at sent, or -1 if it may not be published.
func (q *Queue) Heartbeat(redisKey string, sent time.Time, receivers int64) {
	q.mu.Lock()
	f := q.subscriptions.of(redisKey)
	q.mu.Unlock()
	f.heartbeat(sent, receivers)
}
