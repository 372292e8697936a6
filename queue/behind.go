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
func (b *base) promised() time.Duration { return min(b.set.lease, mostPromised) }

const mostPromised = 30 * time.Second

// takeBehind receives one task that is behind a lock. One request passes over
// 64 that were removed or are paused, so it sends several, but lets other
// callers have the lock after some. If again is true then, there is more to
// pass over.
func (r *receiver) takeBehind(ctx context.Context, lock string) (got received, err error) {
	r.enter(false)
	for range passesTogether {
		got, err = r.receive(ctx, ask{want: 1, then: leaves, lock: lock})
		if err != nil || !got.again || len(got.deliveries) > 0 {
			break
		}
	}
	r.leave(err != nil)
	return got, err
}

// passesTogether is how many requests of a gate follow each other while it has
// the lock: they take some milliseconds, for a thousand tasks.
const passesTogether = 16

// promise says for how long somebody waits for these locks, up to 64. With 0,
// the tasks that are behind them are due.
func (b *base) promise(wait time.Duration, locks ...string) error {
	args := []any{wait.Milliseconds()}
	for _, lock := range locks {
		args = append(args, lock)
	}
	o, _ := b.run(context.Background(), script.TaskGate, args...)
	return o.Err
}
