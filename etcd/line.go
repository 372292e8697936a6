package etcdlock

import "sync"

// lines has the lines of one Locker, by the name of the lock.
type lines struct {
	streams *streams
	mu      sync.Mutex // is taken last
	byName  map[string]*line
}

// line has the calls of one Locker that wait for one lock, in memory. A call
// waits there until it is its turn to ask the server.
type line struct {
	turn    turn
	watches *watches // of the call that has the turn, for an unfair lock
	users   int      // guarded by lines.mu
}

// entry is the turn of one call. An unfair call keeps it until it has the lock,
// so only the first call of a line asks the server. A fair call keeps it until
// its key is in the queue, or nothing of its claim is left. So a call that was
// cancelled meanwhile delays the next ones. Otherwise the server would do
// nothing but serve a storm of short calls, and none of them would get the
// lock.
type entry struct {
	lines *lines
	name  string
	line  *line
	turn  bool // it has had the turn
	left  bool // guarded by lines.mu
}

// join makes a call the last one of a line. It does not have the turn yet.
func (all *lines) join(name string) *entry {
	all.mu.Lock()
	defer all.mu.Unlock()
	one := all.byName[name]
	if one == nil {
		one = &line{turn: newTurn(), watches: all.streams.newWatches()}
		all.byName[name] = one
	}
	one.users++
	return &entry{lines: all, name: name, line: one}
}

// leave gives the turn to the next call. Only the first call has an effect. e
// is nil for a call that does not wait.
func (e *entry) leave() {
	if e == nil {
		return
	}
	e.lines.mu.Lock()
	defer e.lines.mu.Unlock()
	if e.left {
		return
	}
	e.left = true
	if e.turn {
		e.line.turn.give()
	}
	e.line.users--
	if e.line.users == 0 {
		delete(e.lines.byName, e.name)
		e.line.watches.close()
	}
}
