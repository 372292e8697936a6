package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// gates are the locks that a Process waits for, on behalf of the tasks that are
// behind them in Redis. See docs/internals/queue-design.md.
type gates struct {
	of        *terms
	pool      *pool
	locker    relock.Locker
	behind    *receiver       // of the tasks that are behind the locks
	receiving context.Context // the caller's, and ends with the receives

	mu      sync.Mutex
	open    map[string]*gate
	renewed bool // a goroutine renews the promises
}

// gate is the one waiter of a Process for a lock.
type gate struct {
	lock string

	// These are guarded by the mutex of the gates.
	joining int  // settles under way that put a task behind the lock
	joins   int  // such settles so far
	waits   bool // its goroutine runs
	fails   bool // the lock cannot be had: no promise is renewed
}

// isOpen reports whether the process waits for a lock already.
func (g *gates) isOpen(lock string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open[lock] != nil
}

// put settles a delivery: its task goes behind the lock, for which the process
// waits from then on. When Process ends, it releases the task instead.
func (g *gates) put(d *Delivery, lock string) error {
	if g.receiving.Err() != nil {
		return d.settle("release", verbRelease, 0, Released, nil)
	}
	one := g.join(lock)
	defer g.joined(one)
	return d.settle("release", verbBehind, behindOf(d.queue.promised(), lock), Released, nil)
}

// join notes that a task is about to go behind a lock: its gate stays open.
func (g *gates) join(lock string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.open[lock]
	if one == nil {
		one = &gate{lock: lock}
		g.open[lock] = one
	}
	one.joining++
	one.joins++
	return one
}

// joined starts the goroutine of a gate, once a task is behind the lock.
func (g *gates) joined(one *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one.joining--
	if one.waits {
		return
	}
	one.waits = true
	g.open[one.lock] = one // it may have given up meanwhile
	g.pool.group.Go(func() { g.serve(one) })
	if !g.renewed {
		g.renewed = true
		g.pool.group.Go(g.renew)
	}
}

// serve has one task of the lock run in each turn, until none is behind it, or
// Process ends.
func (g *gates) serve(one *gate) {
	ctx, pause := g.receiving, busyPause
	for ctx.Err() == nil && g.of.queue.engine.Life.Err() == nil {
		hold, err := g.acquire(ctx, one.lock)
		switch {
		case err == nil:
			pause = busyPause
			if g.turn(ctx, one, hold) {
				return
			}
		case errors.Is(err, errNoWorker):
			g.giveUp(one)
			return
		case ctx.Err() == nil:
			g.failed(one, err)
			_ = g.of.queue.wait(ctx, pause) // else the loop ends
			pause = min(2*pause, mostPause)
		}
	}
	g.giveUp(one)
}

// mostPause is how long a gate pauses at most whose lock cannot be had, and how
// long it waits for a worker before it leaves its tasks to other processes.
const mostPause = 5 * time.Second

var errNoWorker = errors.New("no worker is free")

// acquire acquires the lock, and takes the slot of a worker. It waits for one
// without the lock, which may be of use to others meanwhile.
func (g *gates) acquire(ctx context.Context, lock string) (relock.Hold, error) {
	slots := g.of.slots
	hold, err := g.locker.Lock(ctx, lock)
	for err == nil && !slots.takeWithin(ctx, slotPatience) {
		unlock(hold)
		if !slots.takeWithin(ctx, mostPause) {
			return nil, errNoWorker
		}
		if hold, err = g.locker.TryLock(ctx, lock); err == nil {
			return hold, nil
		}
		slots.put(1)
		hold, err = g.locker.Lock(ctx, lock)
	}
	return hold, err
}

// slotPatience is how long a gate that has the lock waits for a worker.
const slotPatience = 20 * time.Millisecond

// unlock unlocks a hold, if that was not done. Its backend logs what fails.
func unlock(hold relock.Hold) { _ = hold.Unlock(context.Background()) }

// turn has a worker run one task that is behind the lock, and waits for it. It
// reports whether the gate is closed, as there was none.
func (g *gates) turn(ctx context.Context, one *gate, hold relock.Hold) (closed bool) {
	g.mu.Lock()
	joins := one.joins
	one.fails = false
	g.mu.Unlock()
	got, err := g.behind.takeBehind(ctx, one.lock)
	if len(got.deliveries) == 1 {
		r := &run{of: g.of, delivery: got.deliveries[0], start: time.Now(), slot: g.of.slots.free, lock: one.lock, held: hold}
		r.ended = make(chan struct{})
		g.pool.begin(r)
		<-r.ended
		unlock(hold) // unless the run did
		return false
	}
	g.of.slots.put(1)
	unlock(hold)
	switch {
	case err == nil && got.again:
		return false
	case err == nil && !got.noRoom && g.close(one, joins):
		return true
	}
	// No answer, WithMaxInFlight is reached, or a task is on its way behind
	// it.
	_ = g.of.queue.wait(ctx, busyPause) // else the caller ends
	return false
}

// close closes a gate behind whose lock there was no task. It reports whether
// it did: not if one has joined since.
func (g *gates) close(one *gate, joins int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one.joining > 0 || one.joins > joins {
		return false
	}
	delete(g.open, one.lock)
	return true
}

// failed notes that a lock cannot be had, and logs it the first time: nobody
// else learns of it. While that is so, other processes may try.
func (g *gates) failed(one *gate, why error) {
	g.mu.Lock()
	failed := one.fails
	one.fails = true
	g.mu.Unlock()
	if q := g.of.queue; !failed {
		q.engine.Logger.Warn("relock: the lock of tasks cannot be had", "queue", q.name, "lock", one.lock, "reason", why)
	}
}

// giveUp ends a gate at the end of Process, or if no worker is free for it. The
// tasks that are behind the lock are due again, so that others run them.
func (g *gates) giveUp(one *gate) {
	g.mu.Lock()
	delete(g.open, one.lock)
	one.waits = false
	g.mu.Unlock()
	if q := g.of.queue; q.engine.Life.Err() == nil {
		_ = q.promise(0, one.lock) // else they are due when the promise ends
	}
}

// renew promises that the process waits for its locks, every third of the time
// for which a promise holds. It ends with the last gate. If a promise is not
// renewed in time, its tasks are due again, which costs time only.
func (g *gates) renew() {
	q := g.of.queue
	for {
		if q.wait(g.receiving, q.promised()/3) != nil {
			return
		}
		for some := range slices.Chunk(g.locks(), maxTogether) {
			_ = q.promise(q.promised(), some...)
		}
		if g.renewedAll() {
			return
		}
	}
}

// locks returns the locks of the gates that are open, and do not fail.
func (g *gates) locks() (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for lock, one := range g.open {
		if !one.fails {
			all = append(all, lock)
		}
	}
	return all
}

// renewedAll reports whether no gate is open, and the renewals end.
func (g *gates) renewedAll() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renewed = len(g.open) > 0
	return !g.renewed
}
