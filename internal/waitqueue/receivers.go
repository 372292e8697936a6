package waitqueue

import "time"

// ListenForTasks calls wake when a message names the receiver of a task queue,
// and when the subscription is confirmed or lost, until it is called with nil.
// wake must not block.
func (q *Queue) ListenForTasks(receiver string, wake func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if wake == nil {
		delete(q.receivers, receiver)
		return
	}
	q.receivers[receiver] = wake
	q.subscription.start()
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

// Reached reports whether messages reach the client, as far as it knows.
func (q *Queue) Reached() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.subscription.reaches()
}

// Heartbeat notes how many receivers a heartbeat had, which was sent at sent,
// or -1 if it may not be published.
func (q *Queue) Heartbeat(sent time.Time, receivers int64) { q.subscription.heartbeat(sent, receivers) }
