package relock

import "time"

// redWaiter is a call, as the messages of one node know it.
type redWaiter struct {
	*wait
	wakeups wakeups
}

// listen returns the name of a new wait; messages for it make the call look again. Each listen has its deafen.
func (q *queue) listen(w *wait) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	name := q.client.identity.Hold(q.last) + ":" + redWait
	q.calls[name] = &redWaiter{wait: w}
	return name
}

func (q *queue) deafen(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.calls, name)
}

// knock takes a message to a RedLock's wait. What one that is over was told, the next one is told.
func (q *queue) knock(name, redisKey string) {
	q.mu.Lock()
	w := q.calls[name]
	now := w != nil && q.admit(&w.wakeups, func() { q.knock(name, redisKey) })
	q.mu.Unlock()
	switch {
	case w == nil:
		q.client.unwait(name, redisKey)
	case now:
		w.nudge()
	}
}

// now is the epoch of the subscription.
func (q *queue) now() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.feed.epoch
}

// listens takes in who has heard the sign of life of a request that was sent at sent, in this epoch of the subscription. It
// says whether a message would reach the client, and subscribes when it has not yet. Below -1 there is no list to be in.
func (q *queue) listens(sent time.Time, heard int64, epoch int) bool {
	if heard < -1 {
		return false
	}
	q.feed.pulse(sent, heard)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.feed.start()
	return q.feed.reaches() && heard > 0 && q.feed.epoch == epoch
}
