package relockweb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/queue"
)

const (
	pageSize = 100
	maxPage  = 50
	// What a page shows of a queue that no option names. Workers may keep fewer
	// dead letters, and delete the others in time.
	foundLetters = 10_000_000
	findEvery    = time.Minute
)

// queueRow is a queue.
type queueRow struct {
	Name  string
	Stats queue.Stats
	Err   string
}

// taskRow is a task.
type taskRow struct {
	queue.TaskInfo
	Shown string // of the payload
}

// found are the queues that the server has, if no option names some.
type found struct {
	sync.Mutex
	at   time.Time
	last known
}

// known is the queues of the page, and what is missing.
type known struct {
	queues []*queue.Queue
	notes  []string
}

// find returns the queues of the page. It looks for their names once a minute.
func (h *handler) find(ctx context.Context) known {
	if len(h.queues) > 0 {
		return known{queues: h.queues}
	}
	h.found.Lock()
	defer h.found.Unlock()
	if time.Since(h.found.at) >= findEvery {
		h.found.last, h.found.at = h.search(ctx), time.Now()
	}
	return h.found.last
}

// search looks for the queues of the server.
func (h *handler) search(ctx context.Context) (f known) {
	part, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	for name, err := range queue.List(part, h.client) {
		switch {
		case err != nil && part.Err() != nil:
			f.notes = append(f.notes,
				fmt.Sprintf("Not all queues: the search stopped after %v. Look up one by its name.", listLimit))
		case err != nil:
			f.notes = append(f.notes, err.Error())
		case len(f.queues) == maxQueues:
			f.notes = append(f.notes, fmt.Sprintf("Not all queues: the search stopped at %d.", maxQueues))
		default:
			f.queues = append(f.queues, h.queueOf(name))
			continue
		}
		break
	}
	slices.SortFunc(f.queues, func(a, b *queue.Queue) int { return cmp.Compare(a.Name(), b.Name()) })
	return f
}

// queueOf returns a queue that no option names. The name is that of one.
func (h *handler) queueOf(name string) *queue.Queue {
	q, _ := queue.New(name, h.client, queue.WithDeadLetterLimit(foundLetters, lockspec.MaxLease))
	return q
}

// named returns a queue of the page.
func (h *handler) named(name string) (*queue.Queue, error) {
	for _, q := range h.queues {
		if q.Name() == name {
			return q, nil
		}
	}
	var m lockspec.Problems
	if lockspec.CheckName(&m, "queue", name); len(h.queues) == 0 {
		return h.queueOf(name), m.Err()
	}
	return nil, fmt.Errorf("the page has no queue %.64q", name)
}

func statsOf(ctx context.Context, q *queue.Queue) queueRow {
	row := queueRow{Name: q.Name()}
	var err error
	if row.Stats, err = q.Stats(ctx); err != nil {
		row.Err = err.Error()
	}
	return row
}

// readQueue reads a queue, with its tasks in a state or one of them.
func (h *handler) readQueue(ctx context.Context, v *view, asked query) {
	q, err := h.named(asked.queue)
	if err != nil {
		v.problem(err)
		return
	}
	row := statsOf(ctx, q)
	v.Queue = &row
	if asked.task != "" {
		h.readTask(ctx, v, q, asked.task)
		return
	}
	v.State, v.Page = asked.state, asked.page
	if row.Err == "" {
		h.readPaused(ctx, v, q)
		h.readTasks(ctx, v, q)
	}
}

// readTask reads one task.
func (h *handler) readTask(ctx context.Context, v *view, q *queue.Queue, id string) {
	t, err := q.Get(ctx, id)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		v.problem(fmt.Errorf("there is no task %.64q: it is done, or was removed, or was never enqueued", id))
	case err != nil:
		v.problem(err)
	default:
		v.Task = &taskRow{t, h.shown(t.Task)}
	}
}

// readPaused reads the keys that are paused, those for the longest time first.
func (h *handler) readPaused(ctx context.Context, v *view, q *queue.Queue) {
	for key, err := range q.PausedKeys(ctx) {
		if err != nil {
			v.problem(err)
			return
		}
		if len(v.Paused) == pageSize {
			v.Notes = append(v.Notes, fmt.Sprintf("Not all paused keys: the list stopped at %d.", pageSize))
			break
		}
		v.Paused = append(v.Paused, key)
	}
	slices.SortFunc(v.Paused, func(a, b queue.PausedKey) int { return a.Since.Compare(b.Since) })
}

// readTasks reads one page of the tasks in the state. It reads those of the
// pages before, too.
func (h *handler) readTasks(ctx context.Context, v *view, q *queue.Queue) {
	skip := (v.Page - 1) * pageSize
	for t, err := range q.Tasks(ctx, v.State) {
		switch {
		case err != nil:
			v.problem(err)
			return
		case skip > 0:
			skip--
			continue
		case len(v.Tasks) == pageSize:
			v.More = true
			return
		}
		v.Tasks = append(v.Tasks, taskRow{t, h.shown(t.Task)})
	}
}

// shown returns what of a payload may be seen.
func (h *handler) shown(t queue.Task) string {
	if h.payload == nil {
		return fmt.Sprintf("%d bytes", len(t.Payload))
	}
	return h.payload(t)
}
