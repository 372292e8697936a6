package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/validity"
)

// Lease is one grant of a key, and the holds that share it. A plain lock has
// one hold, unless a Locker's calls are nested. Its settings are those of the
// first level.
type Lease struct {
	validity.Renewal
	client        *Manager
	protocol      Protocol
	indeterminate script.Indeterminate        // acquire requests whose answers never came
	undo          func(time.Time) script.Call // cancels the granted queue entry; nil if there was none
	// The owner of a reentrant lock, whose mutex serialises the changes of the
	// levels at the server. It is nil for a plain lock, whose levels the server
	// does not know.
	owner    *Owner
	memberOf *Group // nil unless it is a member

	// What follows is guarded by Mu, except for task.
	levels       holds.Levels[*Hold]
	seq          int   // number of the last change of the levels
	writes       int32 // how many live levels of a read/write lock write
	passes       int16 // how often it was handed off since Redis granted it
	task         task
	maxRequested time.Duration // the longest lease that was requested
	tokens       script.Tokens // of the grant, from the current holder's on
	claim        *claim        // of a grant by message, until it is answered; else nil
	ending       *ending       // what else its release ends; nil if nothing
	minHoldUntil time.Duration // the key stays until then, counted from the client's start; see WithMinHold

	// What nearly every lease needs is part of it: each object costs time.
	firstHold Hold // the first level
	levelsBuf [1]*Hold
}

// Renew returns the request for a lease of this length.
func (l *Lease) Renew(length time.Duration) script.Call { return l.protocol.Renew(length) }

// LockKey returns the key of the lock in Redis.
func (l *Lease) LockKey() string { return l.protocol.LockKey() }

// ObservedIn returns a context with the values of the oldest level.
func (l *Lease) ObservedIn() context.Context {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if len(l.levels.All) == 0 {
		return context.Background()
	}
	return context.WithoutCancel(l.levels.All[0].values)
}

// unwatch undoes watch for a level that has ended, or is no longer renewed; Mu
// must be held. Levels that want the longest lease are counted, so that the
// others are examined only once the last of these is gone.
func (l *Lease) unwatch(length time.Duration) {
	if !l.Unwatch(length) {
		return
	}
	for _, h := range l.levels.All {
		if h.watched && h.ends.Err() == nil {
			l.Watch(h.settings.Lease)
		}
	}
}

// leave removes the lease from its worker and from the manager. No renewal is
// sent after that.
func (l *Lease) leave() {
	l.Leave()
	byMessage{l}.pending().settle()
}

// Books returns the books of the client.
func (l *Lease) Books() *validity.Books { return l.client.Books }

// Moved passes a change of the validity on to the group of the lease.
func (l *Lease) Moved() (follow func()) { return l.memberOf.recompute() }

func (l *Lease) manager() *Manager            { return l.client }
func (l *Lease) single() *Lease               { return l }
func (l *Lease) isOf(m *Manager) bool         { return l.client == m }
func (l *Lease) covers(key string) bool       { return l.Name == key }
func (l *Lease) checkSuspended(now time.Time) { l.client.CheckSuspended(now) }

// levelEnded notes that a level has ended; Mu must be held.
func (l *Lease) levelEnded(h *Hold) {
	if h.settings.Kind.Writes {
		l.writes--
	}
	if h.watched {
		l.unwatch(h.settings.Lease)
	}
}

// keptUntil returns the time until which the key stays, even if it is released;
// Mu must be held.
func (l *Lease) keptUntil() time.Time { return l.client.At(l.minHoldUntil) }
