package waitqueue

import "time"

// DropAfter sets how long a sharded channel is kept without a use.
func (q *Queue) DropAfter(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.subscriptions.linger = d
}

// PauseFor starts a pause of length d for the messages to all entries.
func (q *Queue) PauseFor(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waits {
		w.wakeups.next = time.Now().Add(d)
	}
}

// CheckPause and ChecksAhead limit the attempts that messages cause.
const (
	CheckPause  = checkPause
	ChecksAhead = checksAhead
)
