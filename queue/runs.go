package queue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The reasons for which a delivery is passed over: its function runs for an
// earlier one.
var (
	errRuns  = errors.New("the function still runs for an earlier attempt")
	errHangs = errors.New("the function still runs in this process")
)

// busyPause is when a task is tried again that cannot be processed for a
// moment.
const busyPause = 250 * time.Millisecond

// endedBefore reports whether done was closed before the limit and the end of
// ctx.
func endedBefore(ctx context.Context, done <-chan struct{}, limit time.Time) bool {
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// runner is a run, as far as others of the same ID need it.
type runner interface {
	// isOverdue reports whether the run was reported.
	isOverdue() bool
	// attempt returns the number of its attempt.
	attempt() int
}

// runs are the functions that run in all Process calls of a Queue.
type runs struct {
	mu       sync.Mutex
	byID     map[string]runner
	returned map[string]chan struct{} // of those that others wait for
	overdue  int
}

// begin notes that the function of a task runs. It returns nil, or the earlier
// run of the same ID and a channel that is closed when its function returns.
func (r *runs) begin(id string, one runner) (earlier runner, returned <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID, r.returned = map[string]runner{}, map[string]chan struct{}{}
	}
	if earlier = r.byID[id]; earlier == nil {
		r.byID[id] = one
		return nil, nil
	}
	if r.returned[id] == nil {
		r.returned[id] = make(chan struct{})
	}
	return earlier, r.returned[id]
}

// end notes that the function of a task has returned.
func (r *runs) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
	if returned := r.returned[id]; returned != nil {
		close(returned)
		delete(r.returned, id)
	}
}

// late counts runs that are overdue.
func (r *runs) late(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.overdue += n
}

func (r *runs) countOverdue() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overdue
}
