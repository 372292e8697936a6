package locktest

import (
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
)

// Variant is an operation at some level and under some kind of lease. A fault
// can be in its request.
type Variant struct {
	Name, Lease    string // the lease is "watched" or "fixed"
	Match, Release faults.Match
	Levels         int  // before
	Cut            bool // the SET before it is to be lost
	reentrant      bool
}

// Acquirers returns the requests that make a hold.
func Acquirers() (all []Variant) {
	for _, lease := range []string{"watched", "fixed"} {
		all = append(
			all,
			plainVariant("plain acquire by SET", lease, faults.Command("SET")),
			plainVariant("plain acquire by script", lease, faults.Script(script.Acquire.SHA)),
			reentrantVariant("reentrant acquire", lease, script.ReentrantAcquire, 0),
		)
		all[len(all)-2].Cut = true
	}
	return all
}

// Renewers returns the requests of the watchdog.
func Renewers() []Variant {
	plain := plainVariant("plain renewal", "watched", faults.Script(script.Renew.SHA))
	plain.Levels = 1
	all := []Variant{plain}
	for n := 1; n <= 3; n++ {
		all = append(all, reentrantVariant(fmt.Sprintf("renewal of level %d", n), "watched", script.ReentrantRenew, n))
	}
	return all
}

func plainVariant(name, lease string, match faults.Match) Variant {
	return Variant{Name: name, Lease: lease, Match: match, Release: faults.Script(script.Release.SHA)}
}

func reentrantVariant(name, lease string, s *script.Script, levels int) Variant {
	return Variant{name, lease, faults.Script(s.SHA), faults.Script(script.ReentrantRelease.SHA), levels, false, true}
}

// Lock returns the operation's kind of lock with a lease of this length.
func (op Variant) Lock(c *relock.Client, lease time.Duration, opts ...relock.LockOption) AnyLock {
	if op.Lease == "fixed" {
		opts = append(opts, relock.WithExpiry(lease))
	} else {
		opts = append(opts, relock.WithWatchdog(lease))
	}
	if op.reentrant {
		return relock.NewReentrantLock(FaultKey, c, opts...)
	}
	return relock.NewRedisLock(FaultKey, c, opts...)
}
