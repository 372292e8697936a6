package etcdlock

import "github.com/relock-go/relock"

// line has the calls of one Locker that wait for one lock, in memory. A call
// waits there until it is its turn to ask the server.
type line struct {
	turn    turn
	watches *watches // of the call that has the turn, for an unfair lock
	users   int      // guarded by Locker.mu
}

// entry is the turn of one call. An unfair call keeps it until it has the lock,
// so only the first call of a line asks the server. A fair call keeps it until
// its key is in the queue, or nothing of its claim is left. So a call that was
// cancelled meanwhile delays the next ones. Otherwise the server would do
// nothing but serve a storm of short calls, and none of them would get the
// lock.
type entry struct {
	locker *Locker
	name   string
	line   *line
	left   bool // guarded by Locker.mu
}

// enter waits for the turn. Calls get it in their order.
func (w *wait) enter() (*entry, error) {
	e := &entry{locker: w.locker, name: w.name, line: w.locker.lineOf(w.name)}
	if w.take(e.line.turn) {
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

// leaveLocked is leave with Locker.mu held. Only the first call has an effect.
// e is nil for a call that does not wait.
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
