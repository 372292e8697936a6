package lease

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Lease is one grant of a key: its validity, and the holds that share it. A
// plain lock has one hold, unless a Locker's calls are nested.
//
// The lease is valid until validUntil. That is the sending of the request that
// set the expiry, plus the lease, less the drift. The key cannot expire before
// then. A timer enforces this without a request.
type Lease struct {
	client        *Manager
	key           string // the name given by the user
	protocol      Protocol
	indeterminate script.Indeterminate        // acquire requests whose answers never came
	undo          func(time.Time) script.Call // cancels the granted queue entry; nil if there was none
	owner         *Owner                      // of a reentrant lock; nil for a plain one
	// The owner mutex: it serialises the changes of the levels at the server.
	// It is nil for a plain lock, whose levels the server does not know.
	turn turn
	// The length of the granted lease. A release is repeated for that long
	// after an unanswered acquire was sent, because a late copy of it may take
	// the key.
	lease    time.Duration
	settings *lockspec.Spec // of the first level
	confirm  *driver.Ack    // the replica acks that each renewal waits for; nil if none are needed
	job      background.Job // the renewal, in its worker
	group    *Group         // set for the lease of a group's hold; else nil
	memberOf *Group         // set for a member of a group; else nil

	next, prev *Lease // of the same key; guarded by Manager.mu

	mu         sync.Mutex // guards the fields below; taken before Manager.mu, never after
	validUntil time.Time
	over       error // why the lease ended; nil while it is live
	levels     holds.Levels[*Hold]
	seq        int // number of the last change of the levels
	// The longest lease of the live watched levels, and how many want it.
	watched  time.Duration
	watchers int32
	due      int32         // index in the expiry timers, guarded by their mutex; -1 if not there
	writes   int32         // how many live levels of a read/write lock write
	recheck  atomic.Bool   // masters have changed: the lease has to ask whether it is there
	fair     bool          // the lock is fair; never changed
	suspect  bool          // the server has refused the lease; the reason is being requested
	passes   int16         // how often it was handed off since Redis granted it
	length   time.Duration // the longest lease that was requested
	since    time.Duration // when Redis granted it, counted from the client's start
	renewed  time.Duration // when its last answered request was sent, counted likewise
	tokens   script.Tokens // of the grant, from the current holder's on
	ending   *ending       // what else its release ends; nil if nothing
	keep     time.Duration // the key stays until then, counted likewise; see WithMinHold

	// What nearly every lease needs is part of it: each object costs time.
	renewal renewal
	first   Hold // the first level
	room    [1]*Hold
}

// end marks the lease as ended; mu must be held.
func (l *Lease) end(why error) {
	l.over = why
	l.client.expiry.forget(l)
}

// leave removes the lease from its worker and from the manager. No renewal is
// sent after that.
func (l *Lease) leave() {
	l.renewer().Remove(&l.job)
	l.client.forget(l)
	l.unsettled().settle()
}

// covers reports whether key is the key of the lease, or one of its group's
// keys.
func (l *Lease) covers(key string) bool {
	if l.group != nil && l.group.keys != nil {
		return slices.Contains(l.group.keys, key)
	}
	return l.key == key
}
