package proof

import (
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// This is the model of the state machine: what the server must store, and until
// when holds must be valid. It is independent of the code of relock. It knows
// times as exactly as a test can, between the start and the end of a call.

// span is a time that lies between the two.
type span struct{ first, last time.Time }

func (s span) add(d time.Duration) span { return span{s.first.Add(d), s.last.Add(d)} }

// extended is the later of two.
func (s span) extended(by span) span { return span{latest(s.first, by.first), latest(s.last, by.last)} }

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

type modelOwner struct {
	client     int
	name, lock string
}

// modelKey is what the server has under the name of a lock.
type modelKey struct {
	grant   *modelGrant // nil when it is free, or when it is not a lock
	foreign bool        // some other program's
	count   int
	ends    span // by the server's clock
}

func (k *modelKey) free() bool { return k.grant == nil && !k.foreign }

// modelGrant is a hold with all its nested holds, and the state of it that the
// server must store.
type modelGrant struct {
	owner  modelOwner
	levels []*modelLevel // not yet unlocked, oldest first
	dead   error         // why its client knows that it is over: ErrLockLost or ErrClosed
	until  span          // end of the validity
	skew   time.Duration // offset of the server's clock when the request was sent that until counts from

	id, field string // at the server
	count     int    // as last seen there, with the number of that change
	seq       int
	copies    []modelCopy
}

type modelLevel struct {
	grant    *modelGrant
	outer    *modelLevel // whose context it was acquired with, if any
	hold     relock.Hold // nil when it was got by TryLock
	over     error       // nil while it is held
	unlocked bool
}

// modelCopy is an earlier request of a grant, which may arrive at the server
// once more.
type modelCopy struct {
	script string
	seq    int
	lease  time.Duration // what it makes the expiry at least; 0 for none
	args   []any
}

// modelMargin is by how much the validity is shorter than the lease, as
// documented.
func modelMargin(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// sentinels are all the reasons that any error in the machine may match.
var sentinels = []error{
	relock.ErrLockAcquiredByOthers, relock.ErrNotHeld, relock.ErrLockLost, relock.ErrInvalid, relock.ErrClosed,
	relock.ErrKeyConflict,
	relock.ErrUnconfirmed, relock.ErrDenied, relock.ErrMaxHold, relock.ErrForced, relock.ErrQuorum, relock.ErrUpgrade,
	relock.ErrReplicas,
	relock.ErrQueueFull,
}

// reasons are the sentinels that an error matches.
func reasons(err error) []error {
	found := []error{}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			found = append(found, s)
		}
	}
	return found
}

// lockOutcome is the expected error of an owner's attempt, or nil if it is
// granted.
func lockOutcome(k *modelKey, g *modelGrant) error {
	switch {
	case g != nil && (g.dead != nil || k.grant != g):
		return relock.ErrLockLost
	case g != nil:
		return nil
	case k.foreign:
		return relock.ErrKeyConflict
	case k.grant != nil:
		return relock.ErrLockAcquiredByOthers
	}
	return nil
}

// unlockOutcome is the expected error of an Unlock, or nil if it is confirmed.
func unlockOutcome(k *modelKey, l *modelLevel) []error {
	switch {
	case l == nil || l.unlocked:
		return []error{relock.ErrNotHeld}
	case errors.Is(l.grant.dead, relock.ErrClosed):
		return []error{relock.ErrClosed}
	case l.grant.dead != nil || k.grant != l.grant:
		return []error{relock.ErrNotHeld, relock.ErrLockLost}
	}
	return []error{}
}

// lose marks all nested holds as lost.
func (g *modelGrant) lose(why error) {
	if g.dead != nil {
		return
	}
	g.dead = why
	for _, l := range g.levels {
		l.over = why
	}
}

// drop takes a level off.
func (g *modelGrant) drop(l *modelLevel) {
	l.unlocked = true
	if l.over == nil {
		l.over = relock.ErrNotHeld
	}
	for i, other := range g.levels {
		if other == l {
			g.levels = append(g.levels[:i:i], g.levels[i+1:]...)
			return
		}
	}
}

// newest is the level that Unlock by the owner ends.
func (g *modelGrant) newest() *modelLevel {
	if g == nil || len(g.levels) == 0 {
		return nil
	}
	return g.levels[len(g.levels)-1]
}

// What rapid prints of a sequence.

func (o modelOwner) GoString() string {
	return fmt.Sprintf("%s of client %d, lock %s", o.name, o.client, o.lock)
}

func (g *modelGrant) GoString() string { return fmt.Sprintf("grant of %#v", g.owner) }

func (l *modelLevel) GoString() string {
	return fmt.Sprintf("hold of %#v, unlocked %v, over %v", l.grant.owner, l.unlocked, l.over)
}

func (c modelCopy) GoString() string { return fmt.Sprintf("%s %v", c.script, c.args) }
