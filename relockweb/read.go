package relockweb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/doctor"
	"github.com/relock-go/relock/queue"
)

const (
	listLimit   = 2 * time.Second
	maxLocks    = 1000
	maxQueues   = 50
	checksEvery = time.Minute
)

// view is what a page shows. What could not be read is in Problems.
type view struct {
	At       time.Time
	Actions  bool
	Problems []string
	Notice   string // of a change that was refused

	// Of the overview.
	Match   string // which locks
	Trip    time.Duration
	Checks  []doctor.Finding // that are not ok
	Stats   relock.Stats
	Locks   []relock.Info
	Notes   []string
	Circles []string
	Queues  []queueRow

	Lock *relock.Info // of one lock

	// Of a queue.
	Queue  *queueRow
	State  queue.State // of the tasks that are listed
	Page   int
	More   bool // there is another page
	Tasks  []taskRow
	Paused []queue.PausedKey
	Task   *taskRow // of one task; no list then
}

func (v *view) problem(err error) { v.Problems = append(v.Problems, err.Error()) }

// read reads one view.
func (h *handler) read(ctx context.Context, asked query) (v view) {
	switch {
	case asked.lock != "":
		h.readLock(ctx, &v, asked.lock)
	case asked.queue != "":
		h.readQueue(ctx, &v, asked)
	default:
		h.readAll(ctx, &v, asked.match)
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
func (h *handler) readAll(ctx context.Context, v *view, match string) {
	v.Match, v.Stats = match, h.client.Stats()
	start := time.Now()
	if err := h.client.Ping(ctx); err != nil {
		v.problem(err)
		return
	}
	v.Trip = time.Since(start)
	var names known
	var group sync.WaitGroup
	group.Go(func() { names = h.find(ctx) })
	h.readLocks(ctx, v, cmp.Or(match, "*"))
	group.Wait()
	v.Notes = append(v.Notes, names.notes...)
	for _, q := range names.queues[:min(len(names.queues), maxQueues)] {
		v.Queues = append(v.Queues, statsOf(ctx, q))
	}
	h.check(ctx, v)
}

// readLocks lists the locks, those with the longest wait first. Viewers with
// other filters wait for each other.
func (h *handler) readLocks(ctx context.Context, v *view, match string) {
	part, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	select {
	case h.scan <- struct{}{}:
		defer func() { <-h.scan }()
	case <-part.Done(): // List returns why
	}
	for info, err := range h.client.List(part, match) {
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
