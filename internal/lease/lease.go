package lease

import (
	"cmp"
	"context"
	"time"

	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Lease is one grant of a key, and the holds that share it. A plain lock has
// one hold, unless a Locker's calls are nested. Its settings are those of the
// first level.
type Lease struct {
	Renewal
	protocol      Protocol
	indeterminate script.Indeterminate        // acquire requests whose answers never came
	undo          func(time.Time) script.Call // cancels the granted queue entry; nil if there was none
	// The owner of a reentrant lock, whose mutex serialises the changes of the
	// levels at the server. It is nil for a plain lock, whose levels the server
	// does not know.
	owner    *Owner
	memberOf *Group // nil unless it is a member

	// What follows is guarded by mu, except for task.
	levels holds.Levels[*Hold]
	seq    int   // number of the last change of the levels
	writes int32 // how many live levels of a read/write lock write
	passes int16 // how often it was handed off since Redis granted it
	task   task
	length time.Duration // the longest lease that was requested
	tokens script.Tokens // of the grant, from the current holder's on
	claim  *claim        // of a grant by message, until it is answered; else nil
	ending *ending       // what else its release ends; nil if nothing
	keep   time.Duration // the key stays until then, counted from the client's start; see WithMinHold

	// What nearly every lease needs is part of it: each object costs time.
	first Hold // the first level
	room  [1]*Hold
}

// task is what the worker of a lease does beside renewals. It belongs to the
// goroutine of the worker.
type task struct {
	stage stage
	old   bool // the hold is old, which was logged
}

// stage is what the sending under way is.
type stage uint8

const (
	renews stage = iota
	claims       // the claim of a grant by message
	asks         // the server has refused the lease; it asks for the reason
)

// Next returns what the worker sends for the lease: the claim of a grant by
// message, then the renewals. A lease that was refused asks for the reason.
func (l *Lease) Next(now time.Time) (script.Call, bool) {
	if l.task.stage == asks {
		return l.askNotice()
	}
	l.task.stage = renews
	if claim, ok := l.sendClaim(); ok {
		l.task.stage = claims
		return claim, true
	}
	return l.Renewal.Next(now)
}

// Limit returns how long an answer may take.
func (l *Lease) Limit() time.Duration {
	return cmp.Or(l.claimLimit(), l.Renewal.Limit())
}

// Handle takes the answer to what Next has returned.
func (l *Lease) Handle(o driver.Result) (time.Time, bool) {
	switch l.task.stage {
	case asks:
		_ = l.loseRefused(l.readNotice(o))
		return time.Time{}, false
	case claims:
		return l.handleClaim(o)
	default:
		return l.Renewal.Handle(o)
	}
}

// Renew returns the request for a lease of this length.
func (l *Lease) Renew(length time.Duration) script.Call { return l.protocol.Renew(length) }

// LockKey returns the key of the lock in Redis.
func (l *Lease) LockKey() string { return l.protocol.LockKey() }

// observedIn returns a context with the values of the oldest level.
func (l *Lease) observedIn() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.levels.All) == 0 {
		return context.Background()
	}
	return context.WithoutCancel(l.levels.All[0].values)
}

// unwatch undoes watch for a level that has ended, or is no longer renewed; mu
// must be held. Levels that want the longest lease are counted, so that the
// others are examined only once the last of these is gone.
func (l *Lease) unwatch(length time.Duration) {
	if length != l.watched {
		return
	}
	if l.watchers--; l.watchers > 0 {
		return
	}
	l.watched = 0
	for _, h := range l.levels.All {
		if h.watched && h.ends.Err() == nil {
			l.watch(h.settings.Lease)
		}
	}
}

// leave removes the lease from its worker and from the manager. No renewal is
// sent after that.
func (l *Lease) leave() {
	l.Leave()
	l.unsettled().settle()
}

// moved passes a change of the validity on to the group of the lease.
func (l *Lease) moved() (follow func()) { return l.memberOf.recompute() }

func (l *Lease) single() *Lease               { return l }
func (l *Lease) isOf(m *Manager) bool         { return l.client == m }
func (l *Lease) covers(key string) bool       { return l.key == key }
func (l *Lease) checkSuspended(now time.Time) { l.client.monitor.check(now) }

// levelEnded notes that a level has ended; mu must be held.
func (l *Lease) levelEnded(h *Hold) {
	if h.settings.Kind.Writes {
		l.writes--
	}
	if h.watched {
		l.unwatch(h.settings.Lease)
	}
}

// at returns the time that was counted from the client's start.
func (m *Manager) at(d time.Duration) time.Time { return m.expiry.start.Add(d) }

// keptUntil returns the time until which the key stays, even if it is released;
// mu must be held.
func (l *Lease) keptUntil() time.Time { return l.client.at(l.keep) }
