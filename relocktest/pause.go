package relocktest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// Pause stops all deliveries until [Queue.Resume]. What is in flight goes on,
// and tasks can be enqueued.
func (q *Queue) Pause(ctx context.Context) error {
	return q.steer(ctx, "pause", func() { q.paused = true })
}

// Resume ends [Queue.Pause]. Keys that are paused stay so.
func (q *Queue) Resume(ctx context.Context) error {
	return q.steer(ctx, "resume", func() { q.paused = false })
}

// PauseKey stops the deliveries of the tasks with this key. They are Behind in
// the Stats once a receive, or [Queue.RunDue], has found them due.
func (q *Queue) PauseKey(ctx context.Context, key string) error {
	return q.steerKey(ctx, "pause key", key, func() {
		if !q.isPausedLocked(key) {
			q.pausedKeys[key] = time.Now()
		}
	})
}

// ResumeKey ends [Queue.PauseKey]. The tasks of the key go on in their order.
func (q *Queue) ResumeKey(ctx context.Context, key string) error {
	return q.steerKey(ctx, "resume key", key, func() {
		delete(q.pausedKeys, key)
		for _, t := range q.tasks {
			t.aside = t.aside && t.Key != key
		}
	})
}

// PausedKeys returns the keys that are paused when the loop begins, each once,
// in no order.
func (q *Queue) PausedKeys(ctx context.Context) iter.Seq2[queue.PausedKey, error] {
	return func(yield func(queue.PausedKey, error) bool) {
		if err := q.ready(ctx); err != nil {
			yield(queue.PausedKey{}, q.inside.Wrap("paused keys", err))
			return
		}
		q.mu.Lock()
		keys := maps.Clone(q.pausedKeys)
		q.mu.Unlock()
		for key, since := range keys {
			if !yield(queue.PausedKey{Key: key, Since: since}, nil) {
				return
			}
		}
	}
}

func (q *Queue) isPausedLocked(key string) bool {
	_, paused := q.pausedKeys[key]
	return paused
}

// steerKey changes what is paused of a key.
func (q *Queue) steerKey(ctx context.Context, op, key string, change func()) error {
	if key == "" || len(key) > maxKey || strings.Contains(key, "\x00") {
		return q.inside.Wrap(op, fmt.Errorf("%w: key: %.40q is not the key of a task", relock.ErrInvalid, key))
	}
	return q.steer(ctx, op, change)
}

// maxKey is how long the key of a task may be.
const maxKey = 512

// steer changes what is paused.
func (q *Queue) steer(ctx context.Context, op string, change func()) error {
	if err := q.ready(ctx); err != nil {
		return q.inside.Wrap(op, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
	return nil
}
