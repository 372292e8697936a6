package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// State is where a task is. [Stats] has how many are in each.
type State string

// The states of a task.
const (
	StateReady    State = "ready"     // due, and not in flight
	StateDelayed  State = "delayed"   // due later, retries included
	StateInFlight State = "in flight" // received, and not settled, and the lease has not ended
	StateBehind   State = "behind"    // behind an earlier task or a pause of its key, or a lock
	StateDead     State = "dead"      // a dead letter within [WithDeadLetterLimit]
)

// TaskInfo is a task, and what it waits for. Times are those of the server. If
// its record cannot be read, Payload is the record, and the other fields of the
// Task, but its ID, and EnqueuedAt are zero.
type TaskInfo struct {
	Task
	State      State
	EnqueuedAt time.Time
	Attempts   int // with the one in flight

	Interruptions int // see [WithMaxInterruptions]

	// LastError is why the last attempt that failed did, or why the task died.
	// It is empty if no reason was given.
	LastError string

	// Due is since when a task is ready, or when a delayed one is due.
	Due time.Time

	// Holder is the client that has a task in flight, as it has written that.
	// Since is when it was received. It is nil in other states.
	Holder   *relock.Holder
	LeaseEnd time.Time // unless it is renewed

	// Before is the ID of the task of its key that a task is behind. Lock is
	// the lock of [WithLocker] that it is behind. Both are empty if it is
	// behind a pause, or others have damaged what is stored.
	Before, Lock string

	// Paused is set if the key or the queue is paused, unless the task is dead.
	Paused bool

	DiedAt time.Time // of a dead letter
}

// Get returns the task with this ID, and what it waits for. It returns
// [ErrNotFound] if there is none: it was never enqueued, or is done, or
// removed.
func (q *Queue) Get(ctx context.Context, id string) (TaskInfo, error) {
	if err := q.ready(ctx); err != nil {
		return TaskInfo{}, q.wrap("get", err)
	}
	if id == "" {
		return TaskInfo{}, q.wrap("get", fmt.Errorf("%w: id: is empty", relock.ErrInvalid))
	}
	pace := newPace()
	some, _, err := q.tasks(ctx, []string{id}, &pace)
	if err == nil && len(some) == 0 {
		err = errs.Join(ErrNotFound, fmt.Errorf("%.64q", id))
	}
	if err != nil {
		return TaskInfo{}, q.wrap("get", err)
	}
	return some[0], nil
}

var errAnswer = errors.New("the answer of a script cannot be read")

// tasks reads the first of these tasks, as many as fit into an answer. It
// leaves out those that are not there. looked is how many IDs these are.
func (q *Queue) tasks(ctx context.Context, ids []string, pace *pace) (some []TaskInfo, looked int, err error) {
	values, err := q.page(ctx, script.TaskGet, pace, func(bytes int) []any {
		args := []any{q.set.letters, milliseconds(q.set.age), bytes}
		for _, id := range ids {
			args = append(args, id)
		}
		return args
	})
	if err != nil {
		return nil, 0, err
	}
	var now int64
	var paused int
	values, err = driver.Scan(values, &now, &paused, &looked)
	if err == nil && (looked < 1 || looked > len(ids)) {
		err = errAnswer
	}
	for len(values) > 0 && err == nil {
		var r row
		values, err = driver.Scan(values, &r.id, &r.place, &r.score, &r.meta, &r.behind, &r.paused, &r.record)
		r.paused += paused
		some = append(some, r.read(now))
	}
	return some, looked, err
}

// row is a task in the answer of task_get.lua.
type row struct {
	id, place, score, meta, behind string

	paused int // above 0 if it is
	record []byte
}

// read returns the task, with what can be read of it.
func (r *row) read(now int64) (t TaskInfo) {
	var err error
	if t.Task, t.EnqueuedAt, err = readRecord(r.id, r.record); err != nil {
		t.Task = Task{ID: r.id, Payload: r.record}
	}
	fields := strings.SplitN(r.meta, " ", 3)
	t.Attempts, t.Interruptions, _ = readAttempts(fields[0]) // 0 if that cannot be read
	_, t.LastError, _ = strings.Cut(r.meta, "\x00")
	score, _ := strconv.ParseInt(r.score, 10, 64) // written only by our scripts
	at := time.UnixMicro(score)
	t.Paused = r.paused > 0 && r.place != "z"
	switch {
	case r.place == "z":
		t.State, t.DiedAt = StateDead, at
	case r.score == "":
		t.State = StateBehind
		if r.place == "o" {
			t.Before = r.behind
		} else {
			t.Lock = r.behind
		}
	case score <= now:
		t.State, t.Due = StateReady, at
	case r.place == "l":
		t.State, t.LeaseEnd = StateInFlight, at
		t.Holder = readHolder(fields)
	default:
		t.State, t.Due = StateDelayed, at
	}
	return t
}

// readHolder reads which client has a task, from what is stored of its
// attempts. It returns nil if others have damaged that.
func readHolder(fields []string) *relock.Holder {
	if len(fields) < 2 {
		return nil
	}
	name, client, _ := strings.Cut(fields[1], "/")
	h, ok := lockspec.ReadTaker(client)
	if !ok {
		return nil
	}
	fence, _, _ := strings.Cut(name, "@")
	if received, err := strconv.ParseInt(fence, 10, 64); err == nil {
		h.Since = time.UnixMicro(received)
	}
	return (*relock.Holder)(h)
}
