package queue

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// reading reads records of a queue in pages that come in time over this link.
type reading struct {
	queue *base
	pace  pace
}

func newReading(q *base) *reading { return &reading{queue: q, pace: newPace()} }

var errAnswer = errors.New("the answer of a script cannot be read")

// page returns the answer of a script that reads records. One that does not
// come in time is requested again, shorter.
func (r *reading) page(ctx context.Context, s *script.TaskScript, args func(bytes int) []any) ([]any, error) {
	q, pace := r.queue, &r.pace
	for {
		if err := q.ready(ctx); err != nil {
			return nil, err
		}
		o, _ := q.run(ctx, s, args(pace.bytes)...)
		took := time.Since(o.Sent)
		if o.Unanswered() && ctx.Err() == nil && pace.missed() {
			continue
		}
		values, err := driver.Values(o.Reply, o.Err)
		if err != nil {
			return nil, driver.ContextErr(ctx, err)
		}
		pace.came(driver.Size(values), took, q.engine.CommandTimeout)
		return values, nil
	}
}

// tasks reads the first of these tasks, as many as fit into an answer. It
// leaves out those that are not there. looked is how many IDs these are.
func (r *reading) tasks(ctx context.Context, ids []string) (some []TaskInfo, looked int, err error) {
	values, err := r.page(ctx, script.TaskGet, func(bytes int) []any {
		args := []any{r.queue.set.letters, milliseconds(r.queue.set.age), bytes}
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
		var t row
		values, err = driver.Scan(values, &t.id, &t.place, &t.score, &t.meta, &t.behind, &t.paused, &t.record)
		t.paused += paused
		some = append(some, t.read(now))
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

// ids returns the ids that are in a place after the end of one page, and
// where this page ends. In the place of pauses, what is paused and since when
// come in turn.
func (r *reading) ids(ctx context.Context, from source, after [2]string) (ids []string, end [2]string, err error) {
	if err = r.queue.ready(ctx); err != nil {
		return nil, end, err
	}
	o, _ := r.queue.run(ctx, script.TaskList, from.place, from.half, after[0], after[1])
	ids, err = driver.Strings(o.Reply, o.Err)
	if err == nil && len(ids) < len(end) {
		err = errAnswer
	}
	if err != nil {
		return nil, end, driver.ContextErr(ctx, err)
	}
	return ids[2:], [2]string(ids[:2]), nil
}
