package etcdlock

import "github.com/relock-go/relock"

// line is where the calls of one Locker wait for one lock, in memory, until it
// is their turn to ask the server.
type line struct {
	turn    turn
	watches *watches // for an unfair lock, of whoever has the turn
	users   int      // guarded by Locker.mu
}

// entry is the turn of one call. An unfair call has it until it has the lock:
// the first of a line alone asks the server. A fair one has it until its key is
// in the queue, or nothing of its claim is left. So a call that was cancelled
// meanwhile delays the next ones: else a storm of short calls is all that the
// server does, and none of them gets the lock.
type entry struct {
	locker *Locker
	name   string
	line   *line
	left   bool // guarded by Locker.mu
}

// enter waits for the turn, in the order of the calls.
func (w *wait) enter() (*entry, error) {
	e := &entry{locker: w.locker, name: w.name, line: w.locker.lineOf(w.name)}
	if e.line.turn.take(w.ctx, w.locker.life) {
		return e, nil
	}
	w.note(relock.ErrLockAcquiredByOthers)
	w.locker.mu.Lock()
	defer w.locker.mu.Unlock()
	e.leaveLineLocked()
	return nil, errLeft
}

func (l *Locker) lineOf(name string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.lines[name]
	if one == nil {
		one = &line{turn: newTurn(), watches: l.newWatches()}
		l.lines[name] = one
	}
	one.users++
	return one
}

// leave gives the turn to the next call.
func (e *entry) leave() {
	if e == nil {
		return
	}
	e.locker.mu.Lock()
	defer e.locker.mu.Unlock()
	e.leaveLocked()
}

// leaveLocked is leave. It counts once; a call that does not wait has no entry.
func (e *entry) leaveLocked() {
	if e == nil || e.left {
		return
	}
	e.left = true
	e.line.turn.give()
	e.leaveLineLocked()
}

func (e *entry) leaveLineLocked() {
	e.line.users--
	if e.line.users == 0 {
		delete(e.locker.lines, e.name)
		e.line.watches.close()
	}
}
