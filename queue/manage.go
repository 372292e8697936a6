package queue

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Remove removes a task that waits, or a dead letter. It returns [ErrNotFound]
// if there is none, [ErrInFlight] if it is being processed, and
// [relock.ErrUnconfirmed] without an answer. If the request was sent twice, it
// returns nil even if there was none: the first one may have removed it.
func (q *Queue) Remove(ctx context.Context, id string) error {
	if err := q.ready(ctx); err != nil {
		return q.wrap("remove", err)
	}
	if id == "" {
		return q.wrap("remove", fmt.Errorf("%w: id: is empty", relock.ErrInvalid))
	}
	o, d := q.run(ctx, script.TaskRemove, id)
	code, err := driver.Int64(o.Reply, o.Err)
	switch {
	case err != nil:
		o.Err = err
		return q.wrap("remove", unconfirmed(ctx, o, d))
	case code == inFlight:
		return q.wrap("remove", errs.Both(ErrInFlight, fmt.Errorf("%.64q", id)))
	case code != script.Ours && d.Last.IsZero(): // else an earlier copy has removed it
		return q.wrap("remove", errs.Both(ErrNotFound, fmt.Errorf("%.64q", id)))
	}
	return nil
}

// inFlight is the answer of a removal to a task that has a lease.
const inFlight = 2

// Stats are counts of a queue, at one moment.
type Stats struct {
	Ready    int // due, and not in flight
	Delayed  int // due later, retries included
	InFlight int // received, and not settled
	Behind   int // behind an earlier task of their keys
	Dead     int // dead letters
	// Idle is how many receivers wait for a task: a Process, or the callers of
	// Receive of one Queue.
	Idle int
	// Oldest is for how long the oldest ready task has been due.
	Oldest time.Duration
}

// Stats counts the tasks of the queue.
func (q *Queue) Stats(ctx context.Context) (s Stats, err error) {
	if err = q.ready(ctx); err != nil {
		return Stats{}, q.wrap("stats", err)
	}
	o, _ := q.run(ctx, script.TaskStats)
	values, err := driver.Values(o.Reply, o.Err)
	if err != nil {
		return Stats{}, q.wrap("stats", driver.Ended(ctx, err))
	}
	var oldest int64
	_, err = driver.Scan(values, &s.Ready, &s.Delayed, &s.InFlight, &s.Behind, &s.Dead, &s.Idle, &oldest)
	s.Oldest = time.Duration(oldest) * time.Microsecond
	return s, q.wrap("stats", err)
}

// DeadTask is a dead letter. If its record cannot be read, Payload is the
// record, and Key, Header, Delay and EnqueuedAt are zero.
type DeadTask struct {
	Task
	EnqueuedAt time.Time // by the server's clock
	DiedAt     time.Time // by the server's clock
	Attempts   int
	Reason     string // up to 1,024 bytes
}

// DeadLetters returns the dead letters, the oldest first. After an error it
// ends.
func (q *Queue) DeadLetters(ctx context.Context) iter.Seq2[DeadTask, error] {
	return func(yield func(DeadTask, error) bool) {
		for after := "0"; after != ""; {
			page, last, err := q.deadPage(ctx, after)
			if err != nil {
				yield(DeadTask{}, q.wrap("dead letters", err))
				return
			}
			for _, t := range page {
				if !yield(t, nil) {
					return
				}
			}
			after = last
		}
	}
}

// deadPage returns the dead letters after the one with this number, and the
// number of the last one. That is "" if there are no more.
func (q *Queue) deadPage(ctx context.Context, after string) (page []DeadTask, last string, err error) {
	if err = q.ready(ctx); err != nil {
		return nil, "", err
	}
	o, _ := q.run(ctx, script.TaskDead, after, maxTogether)
	values, err := driver.Values(o.Reply, o.Err)
	if err != nil {
		return nil, "", driver.Ended(ctx, err)
	}
	for len(values) > 0 {
		var id, stored string
		var record []byte
		if values, err = driver.Scan(values, &id, &last, &stored, &record); err != nil {
			return nil, "", err
		}
		page = append(page, readDead(id, last, stored, record))
	}
	return page, last, nil
}

// readDead returns a dead letter, with what can be read of it.
func readDead(id, number, stored string, record []byte) (t DeadTask) {
	var err error
	if t.Task, t.EnqueuedAt, err = readRecord(id, record); err != nil {
		t.Task = Task{ID: id, Payload: record}
	}
	if died, err := strconv.ParseInt(number, 10, 64); err == nil {
		t.DiedAt = time.UnixMicro(died)
	}
	attempts, _, _ := strings.Cut(stored, " ")
	t.Attempts, _ = strconv.Atoi(attempts)
	_, t.Reason, _ = strings.Cut(stored, "\x00")
	return t
}

// Requeue queues dead letters once more, as new tasks with the same IDs, due
// immediately. Their EnqueuedAt is this time, less the Delay that they had. It
// returns how many there were. If a request was sent twice, or not answered,
// there may be more.
func (q *Queue) Requeue(ctx context.Context, ids ...string) (queued int, err error) {
	var m lockspec.Problems
	for i, id := range ids {
		m.Check(id != "", "ids[%d]: is empty", i)
	}
	if err = q.ready(ctx); err == nil {
		err = m.Err()
	}
	for some := range slices.Chunk(ids, maxTogether) {
		if err != nil {
			break
		}
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		o, d := q.run(ctx, script.TaskRequeue, args...)
		var n int64
		if n, err = driver.Int64(o.Reply, o.Err); err != nil {
			o.Err = err
			err = unconfirmed(ctx, o, d)
		}
		queued += int(n)
	}
	return queued, q.wrap("requeue", err)
}
