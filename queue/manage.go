package queue

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Remove removes a task that waits, or a dead letter. It returns [ErrNotFound]
// if there is none, [ErrInFlight] if it is being processed, and
// [relock.ErrUnconfirmed] without an answer. It also returns that if the
// request was sent twice and the second one found none: the first one may have
// removed it.
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
		return q.wrap("remove", errs.Join(ErrInFlight, fmt.Errorf("%.64q", id)))
	case code == script.OK:
		return nil
	}
	if d.Exists() {
		return q.wrap("remove",
			errs.Join(relock.ErrUnconfirmed, fmt.Errorf("sent twice, the second request found no task %.64q", id)))
	}
	return q.wrap("remove", errs.Join(ErrNotFound, fmt.Errorf("%.64q", id)))
}

// inFlight is the answer of a removal to a task that has a lease.
const inFlight = 2

// Stats are counts of a queue, at one moment.
type Stats struct {
	Ready    int // due, and not in flight
	Delayed  int // due later, retries included
	InFlight int // received, and not settled, and the lease has not ended
	Behind   int // behind an earlier task or a pause of their keys, or a lock of [WithLocker]
	Dead     int // dead letters within [WithDeadLetterLimit]
	// Idle is how many receivers wait for a task: a Process, or the callers of
	// Receive of one Queue.
	Idle int
	// Oldest is for how long the oldest ready task has been due.
	Oldest time.Duration
	// Overdue is how many deliveries of Process in this Queue value do not end.
	// See [Observer].
	Overdue int

	Paused     bool // by [Queue.Pause]
	PausedKeys int  // by [Queue.PauseKey]
}

// Stats counts the tasks of the queue.
func (q *Queue) Stats(ctx context.Context) (s Stats, err error) {
	if err = q.ready(ctx); err != nil {
		return Stats{}, q.wrap("stats", err)
	}
	o, _ := q.run(ctx, script.TaskStats, q.set.letters, milliseconds(q.set.age))
	values, err := driver.Values(o.Reply, o.Err)
	if err != nil {
		return Stats{}, q.wrap("stats", driver.ContextErr(ctx, err))
	}
	var oldest int64
	var paused int
	_, err = driver.Scan(values,
		&s.Ready, &s.Delayed, &s.InFlight, &s.Behind, &s.Dead, &s.Idle, &oldest, &paused, &s.PausedKeys)
	s.Paused = paused > 0
	s.Oldest, s.Overdue = time.Duration(oldest)*time.Microsecond, q.runs.countOverdue()
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

	Interruptions int // see [WithMaxInterruptions]
}

// DeadLetters returns the dead letters within [WithDeadLetterLimit], the oldest
// first. After an error it ends.
func (q *Queue) DeadLetters(ctx context.Context) iter.Seq2[DeadTask, error] {
	return func(yield func(DeadTask, error) bool) {
		r := q.read()
		for after := "0"; after != ""; {
			page, last, err := r.dead(ctx, after)
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

// dead returns the dead letters after the one with this number, and the
// number of the last one. That is "" if there are no more.
func (r *reading) dead(ctx context.Context, after string) (page []DeadTask, last string, err error) {
	values, err := r.page(ctx, script.TaskDead, func(bytes int) []any {
		return []any{after, maxTogether, r.queue.set.letters, milliseconds(r.queue.set.age), bytes}
	})
	if err != nil {
		return nil, "", err
	}
	return readPage(values)
}

func readPage(values []any) (page []DeadTask, last string, err error) {
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
	t.Attempts, t.Interruptions, _ = readAttempts(attempts) // 0 if that cannot be read
	_, t.Reason, _ = strings.Cut(stored, "\x00")
	return t
}

// Requeue queues dead letters once more, as new tasks with the same IDs, due
// immediately. Their EnqueuedAt becomes the present time minus their Delay. It
// returns how many were queued. That is a lower bound if a request was sent
// twice, or not answered.
func (q *Queue) Requeue(ctx context.Context, ids ...string) (queued int, err error) {
	var m lockspec.Problems
	for i, id := range ids {
		m.Check(id != "", "ids[%d]: is empty", i)
	}
	if err = q.ready(ctx); err == nil {
		err = m.Err()
	}
	for len(ids) > 0 && err == nil {
		var n, looked int
		n, looked, err = q.requeue(ctx, ids[:min(maxTogether, len(ids))])
		queued, ids = queued+n, ids[looked:]
	}
	return queued, q.wrap("requeue", err)
}

// requeue sends one script, which looks at some of the ids.
func (q *Queue) requeue(ctx context.Context, ids []string) (queued, looked int, err error) {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	o, d := q.run(ctx, script.TaskRequeue, args...)
	values, err := driver.Values(o.Reply, o.Err)
	if err == nil {
		_, err = driver.Scan(values, &queued, &looked)
	}
	if err == nil && (looked < 1 || looked > len(ids)) {
		err = errAnswer
	}
	if o.Err = err; err != nil {
		return 0, 0, unconfirmed(ctx, o, d)
	}
	return queued, looked, nil
}

// RequeueDied queues the dead letters once more that died at from or later, and
// before until, by the server's clock: those of a bad deploy, for example. A
// zero time is no bound. It is [Queue.Requeue] for those within
// [WithDeadLetterLimit]. What dies again meanwhile stays.
func (q *Queue) RequeueDied(ctx context.Context, from, until time.Time) (queued int, err error) {
	if !until.IsZero() && until.Before(from) {
		return 0, q.wrap("requeue", fmt.Errorf("%w: until: %v is before from, %v", relock.ErrInvalid, until, from))
	}
	first, below := numberOf(from, 0), numberOf(until, lastNumber)
	for {
		if err = q.ready(ctx); err != nil {
			return queued, q.wrap("requeue", err)
		}
		o, d := q.run(ctx, script.TaskRequeueDied, first, below, q.set.letters, milliseconds(q.set.age))
		var n, more int
		var from, number int64
		values, err := driver.Values(o.Reply, o.Err)
		if err == nil {
			_, err = driver.Scan(values, &n, &more, &from, &number)
		}
		if o.Err = err; err != nil {
			return queued, q.wrap("requeue", unconfirmed(ctx, o, d))
		}
		queued, first, below = queued+n, max(first, from), min(below, number)
		if more == 0 {
			return queued, nil
		}
	}
}

// lastNumber is the last one that the server's scripts count exactly.
const lastNumber = 1 << 53

// numberOf returns the number of what dies at a time, or none if t is zero.
func numberOf(t time.Time, none int64) int64 {
	if t.IsZero() {
		return none
	}
	return min(max(0, t.UnixMicro()), lastNumber)
}
