package lease

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/validity"
)

// Lease is one grant of a key, and the holds that share it. A plain lock has
// one hold, unless a Locker's calls are nested. Its settings are those of the
// first level.
type Lease struct {
	validity.Renewal
	client *client
	// The owner of a reentrant lock, whose mutex serialises the changes of the
	// levels at the server. It is nil for a plain lock, whose levels the server
	// does not know.
	owner *Owner
	of    whole

	// What follows is guarded by Mu, except for task.
	remote
	levels       stack
	passes       int16 // how often it was handed off since Redis granted it
	task         task
	tokens       script.Tokens // of the grant, from the current holder's on
	minHoldUntil time.Duration // the key stays until then, counted from the client's start; see WithMinHold
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
	renews     stage = iota
	claims           // the claim of a grant by message
	looks            // whether a lease that is not renewed is marked to end by force
	asks             // the server has refused the lease; it asks for the reason
	asksMarked       // the same, and the hold is marked to end by force
)

// whole is what a lease is a member of: a [Group], or nothing more than itself.
type whole interface {
	// node returns the number of the node that has the lease, and reports
	// whether there is one.
	node(l *Lease) (n int, ok bool)
	// recompute takes a change of the lease's validity. It returns what is to
	// be done about that.
	recompute() (follow func())
	// noteEnd takes the reason why the lease has ended; its mutex is held.
	noteEnd(why error)
	// lost logs the loss of the lease, and takes it.
	lost(l *Lease, why error)
	// unlimited returns the oldest live hold without a maximum, or nil.
	unlimited(l *Lease) *Hold
	// isFirstOld reports whether nobody has logged yet that the hold is old.
	isFirstOld() bool
	// isReturned reports whether a caller got the hold.
	isReturned() bool
	// gathered sends a release with those of other members, and reports
	// whether it did.
	gathered(l *Lease, limit driver.Limits, release script.Call) (o driver.Result, d script.Indeterminate, sent bool)
}

// itself is what a lease belongs to that is no member.
type itself struct{}

func (itself) node(*Lease) (n int, ok bool) { return 0, false }
func (itself) recompute() (follow func())   { return validity.Nothing }
func (itself) noteEnd(error)                {}
func (itself) isFirstOld() bool             { return true }
func (itself) isReturned() bool             { return true }

func (itself) unlimited(l *Lease) *Hold {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.levels.unlimited()
}

func (itself) lost(l *Lease, why error) {
	if why != errs.ErrClosed { //nolint:errorlint // our own sentinel
		l.client.Logger.Warn("relock: lock lost", l.About("reason", why.Error())...)
	}
}

func (itself) gathered(*Lease, driver.Limits, script.Call) (o driver.Result, d script.Indeterminate, sent bool) {
	return o, d, false
}

// About adds the node of a RedLock.
func (l *Lease) About(more ...any) []any {
	if n, ok := l.of.node(l); ok {
		more = append([]any{"node", n}, more...)
	}
	return l.Renewal.About(more...)
}

func (l *Lease) ofClient() *client            { return l.client }
func (l *Lease) single() *Lease               { return l }
func (l *Lease) isOf(c *client) bool          { return l.client == c }
func (l *Lease) covers(key string) bool       { return l.Name == key }
func (l *Lease) checkSuspended(now time.Time) { l.client.CheckSuspended(now) }

// leave removes the lease from its worker and from the books. No renewal is
// sent after that, and no claim.
func (l *Lease) leave() {
	l.Leave()
	byMessage{l}.pending().settle()
}

// keptUntil returns the time until which the key stays, even if it is released;
// Mu must be held.
func (l *Lease) keptUntil() time.Time { return l.client.At(l.minHoldUntil) }

// leasesAmong returns the leases among grants.
func leasesAmong(grants []*validity.Renewal) (all []*Lease) {
	for _, r := range grants {
		if l, ok := r.Grant().(*Lease); ok {
			all = append(all, l)
		}
	}
	return all
}
