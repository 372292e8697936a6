package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/script"
)

// Lease is one grant of a key: what the client believes of it, and the levels that share it. A plain lock has
// one level.
//
// The belief ends at validUntil, which is the sending of the request that set the expiry, plus the lease, less the
// drift: the key cannot end before. A timer enforces it without asking anybody.
type Lease struct {
	client   *Manager
	key      string // as the user named it
	protocol Protocol
	doubt    script.Indeterminate        // acquiring requests whose answers never came
	undo     func(time.Time) script.Call // cancels the wait that it came from; nil when there was none
	owner    *Owner                      // of a reentrant lock; nil for a plain one
	turn     turn                        // one change of the levels at a time; nil where there is only one
	lease    time.Duration               // that was granted; for so long after its sending a late copy of the acquire is looked for
	confirm  *driver.Ack                 // by replicas, of each renewal; nil when none is needed
	job      *background.Job             // in the watchdog
	group    *Group                      // of a hold that is made of several; nil for any other
	memberOf *Group                      // that it is one of; nil when it is of none

	mu         sync.Mutex // guards what follows; taken before Manager.mu, never after
	validUntil time.Time
	over       error // why the lease ended; nil while it is live
	levels     holds.Levels[*Hold]
	seq        int // number of the last change of the levels
	// The longest lease of a watched level that is held, and how many want it.
	watched  time.Duration
	watchers int32
	due      int32         // its place with the client's beliefs, which guard it; -1 when it has none
	writes   int32         // of the live levels, the ones that write, of a read/write lock
	fair     bool          // its lock; never changed
	suspect  bool          // the server has said that it is not ours; why is being asked
	passes   int16         // how often it was passed on since Redis granted it
	length   time.Duration // the longest lease that was asked for
	since    time.Duration // when Redis granted it, after the client's start
	tokens   script.Tokens // of the grant, from the present holder's on
	ending   *ending       // what else its release ends; nil when that is nothing
	keep     time.Time     // the key stays until then, see WithMinHold
}

// end marks the lease as over; mu is held.
func (l *Lease) end(why error) {
	l.over = why
	l.client.expiry.forget(l)
}

// leave takes the lease out of the client's books: no renewal is sent after that.
func (l *Lease) leave() {
	l.renewer().Remove(l.job)
	l.client.forget(l)
}

// covers reports whether the hold is one of this name.
func (l *Lease) covers(key string) bool {
	if l.group != nil && l.group.keys != nil {
		return slices.Contains(l.group.keys, key)
	}
	return l.key == key
}
