package queue

import (
	"context"
	"errors"
	"fmt"
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

// exclusive runs the function unless one of the same ID runs in this Queue. For
// that it waits for a moment, as a function may settle before it returns.
func (r *run) exclusive(ctx context.Context, function func() error) error {
	runs, id := &r.process.queue.runs, r.delivery.ID
	for limit := time.Now().Add(busyPause); ; {
		earlier, returned := runs.begin(id, r)
		switch {
		case earlier == nil:
			defer runs.end(id)
			return function()
		case earlier.isOverdue():
			return fmt.Errorf("attempt %d: %w", earlier.delivery.Attempt, errHangs)
		case !endedBefore(ctx, returned, limit):
			return errRuns
		}
	}
}

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

// runs are the functions that run in all Process calls of a Queue.
type runs struct {
	mu       sync.Mutex
	byID     map[string]*run
	returned map[string]chan struct{} // of those that others wait for
	overdue  int
}

// begin notes that the function of a task runs. It returns nil, or the earlier
// run of the same ID and a channel that is closed when its function returns.
func (r *runs) begin(id string, one *run) (earlier *run, returned <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID, r.returned = map[string]*run{}, map[string]chan struct{}{}
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
