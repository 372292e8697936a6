package relockweb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/doctor"
	"github.com/relock-go/relock/queue"
)

const (
	listLimit   = 2 * time.Second
	maxLocks    = 1000
	maxQueues   = 50
	maxLetters  = 100
	checksEvery = time.Minute
)

// view is what a page shows. What could not be read is in Problems.
type view struct {
	At       time.Time
	Actions  bool
	Problems []string
	Notice   string // of a change that was refused

	// Of the overview.
	Trip    time.Duration
	Checks  []doctor.Finding // that are not ok
	Stats   relock.Stats
	Locks   []relock.Info
	Notes   []string
	Circles []string
	Queues  []queueRow

	Lock  *relock.Info // of one lock
	Queue *queueRow    // of one queue
	Dead  []letter
	More  bool // there are more letters
}

// queueRow is a queue.
type queueRow struct {
	Name  string
	Stats queue.Stats
	Err   string
}

// letter is a dead letter.
type letter struct {
	queue.DeadTask
	Shown string // of the payload
}

func (v *view) problem(err error) { v.Problems = append(v.Problems, err.Error()) }

// read reads one view.
func (h *handler) read(ctx context.Context, lock, queue string) (v view) {
	switch {
	case lock != "":
		h.readLock(ctx, &v, lock)
	case queue != "":
		h.readQueue(ctx, &v, queue)
	default:
		h.readAll(ctx, &v)
	}
	return v
}

func (h *handler) readLock(ctx context.Context, v *view, key string) {
	info, err := h.client.Inspect(ctx, key)
	if err != nil {
		v.problem(err)
		return
	}
	v.Lock = &info
}

// readAll reads the overview. After a server that does not answer it asks no
// more.
func (h *handler) readAll(ctx context.Context, v *view) {
	v.Stats = h.client.Stats()
	start := time.Now()
	if err := h.client.Ping(ctx); err != nil {
		v.problem(err)
		return
	}
	v.Trip = time.Since(start)
	h.readLocks(ctx, v)
	for _, q := range h.queues[:min(len(h.queues), maxQueues)] {
		v.Queues = append(v.Queues, statsOf(ctx, q))
	}
	h.check(ctx, v)
}

// readLocks lists the locks, those with the longest wait first.
func (h *handler) readLocks(ctx context.Context, v *view) {
	part, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	for info, err := range h.client.List(part, "*") {
		if !v.add(part, info, err) {
			break
		}
	}
	slices.SortFunc(v.Locks, byWait)
	v.Circles = circles(v.Locks)
}

// add adds a lock to the list. It reports whether to go on.
func (v *view) add(ctx context.Context, info relock.Info, err error) bool {
	switch {
	case errors.Is(err, relock.ErrKeyConflict): // another program's
		return true
	case err != nil && ctx.Err() != nil:
		v.Notes = append(v.Notes, fmt.Sprintf("Not all: the list stopped after %v.", listLimit))
		return false
	case err != nil:
		v.problem(err)
		return false
	case len(v.Locks) == maxLocks:
		v.Notes = append(v.Notes, fmt.Sprintf("Not all: the list stopped at %d locks.", maxLocks))
		return false
	}
	v.Locks = append(v.Locks, info)
	return true
}

func statsOf(ctx context.Context, q *queue.Queue) queueRow {
	row := queueRow{Name: q.Name()}
	var err error
	if row.Stats, err = q.Stats(ctx); err != nil {
		row.Err = err.Error()
	}
	return row
}

// check reads the settings of the server, once a minute.
func (h *handler) check(ctx context.Context, v *view) {
	h.checks.Lock()
	defer h.checks.Unlock()
	if time.Since(h.checks.at) >= checksEvery {
		h.checks.all, h.checks.at = doctor.Look(ctx, h.client, readLimit), time.Now()
	}
	for _, f := range h.checks.all {
		if f.Level != doctor.OK {
			v.Checks = append(v.Checks, f)
		}
	}
}

// named returns a queue of the page.
func (h *handler) named(name string) (*queue.Queue, error) {
	for _, q := range h.queues {
		if q.Name() == name {
			return q, nil
		}
	}
	return nil, fmt.Errorf("the page has no queue %.64q", name)
}

func (h *handler) readQueue(ctx context.Context, v *view, name string) {
	q, err := h.named(name)
	if err != nil {
		v.problem(err)
		return
	}
	row := statsOf(ctx, q)
	v.Queue = &row
	for task, err := range q.DeadLetters(ctx) {
		if err != nil {
			v.problem(err)
			return
		}
		if v.More = len(v.Dead) == maxLetters; v.More {
			return
		}
		v.Dead = append(v.Dead, letter{task, h.shown(task.Task)})
	}
}

// shown returns what of a payload may be seen.
func (h *handler) shown(t queue.Task) string {
	if h.payload == nil {
		return fmt.Sprintf("%d bytes", len(t.Payload))
	}
	return h.payload(t)
}
