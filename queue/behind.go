package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/script"
)

// behindOf returns the argument of a settle that puts a task behind a lock, for
// which somebody waits for so long.
func behindOf(wait time.Duration, lock string) string {
	return fmt.Sprintf("%d %s", wait.Milliseconds(), lock)
}

// promised returns for how long the promise holds that somebody waits for a
// lock.
func (q *Queue) promised() time.Duration { return min(q.set.lease, mostPromised) }

const mostPromised = 30 * time.Second

// takeBehind receives one task that is behind a lock. If there is none, and
// again is true, there may be one later.
func (q *Queue) takeBehind(ctx context.Context, lock string) (received, error) {
	q.behind.enter(false)
	got, err := q.behind.receive(ctx, ask{want: 1, then: leaves, lock: lock})
	q.behind.leave(err != nil)
	return got, err
}

// promise says for how long somebody waits for these locks, up to 64. With 0,
// the tasks that are behind them are due.
func (q *Queue) promise(wait time.Duration, locks ...string) error {
	args := []any{wait.Milliseconds()}
	for _, lock := range locks {
		args = append(args, lock)
	}
	o, _ := q.run(context.Background(), script.TaskGate, args...)
	return o.Err
}
