package locktest

import (
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/script"
)

// Variant is an operation at some level and under some kind of lease. A fault
// can be in its request.
type Variant struct {
	Name      string
	reentrant bool
	Levels    int          // before
	Match     faults.Match // of the request
	First     bool         // it acquires: there is no hold before, and a copy that comes late may make one
	cut       bool         // the SET before it is lost
	Renews    bool         // the watchdog does it
	Releases  bool
	Lease     string // "watched" or "fixed"
}

func plainVariants() []Variant {
	release := faults.Script(script.Release.SHA)
	return []Variant{
		{Name: "plain acquire by SET", Match: faults.Command("SET"), First: true},
		{Name: "plain acquire by script", Match: faults.Script(script.Acquire.SHA), First: true, cut: true},
		{Name: "plain renewal", Levels: 1, Match: faults.Script(script.Renew.SHA), Renews: true},
		{Name: "plain release", Levels: 1, Match: release, Releases: true},
	}
}

func reentrantVariants() []Variant {
	renew, release := faults.Script(script.ReentrantRenew.SHA), faults.Script(script.ReentrantRelease.SHA)
	all := []Variant{{Name: "reentrant acquire", Match: faults.Script(script.ReentrantAcquire.SHA), First: true}}
	for n := 1; n <= 3; n++ {
		all = append(
			all,
			Variant{Name: fmt.Sprintf("renewal of level %d", n), Levels: n, Match: renew, Renews: true},
			Variant{Name: fmt.Sprintf("release of level %d", n), Levels: n, Match: release, Releases: true},
		)
	}
	for i := range all {
		all[i].reentrant = true
	}
	return all
}

// Variants returns all of them, under both kinds of lease.
func Variants() []Variant {
	var all []Variant
	for _, op := range append(plainVariants(), reentrantVariants()...) {
		for _, op.Lease = range []string{"watched", "fixed"} {
			if !op.Renews || op.Lease == "watched" {
				all = append(all, op)
			}
		}
	}
	return all
}

// VariantsThat returns those for which wanted returns true.
func VariantsThat(wanted func(Variant) bool) []Variant {
	var all []Variant
	for _, op := range Variants() {
		if wanted(op) {
			all = append(all, op)
		}
	}
	return all
}

// Acquirers returns the requests that make a hold.
func Acquirers() []Variant { return VariantsThat(func(op Variant) bool { return op.First }) }

// Renewers returns the requests of the watchdog.
func Renewers() []Variant { return VariantsThat(func(op Variant) bool { return op.Renews }) }

// FullName returns the name with the kind of lease.
func (op Variant) FullName() string { return op.Name + "/" + op.Lease }

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

// MatchRelease matches the release.
func (op Variant) MatchRelease() faults.Match {
	if op.reentrant {
		return faults.Script(script.ReentrantRelease.SHA)
	}
	return faults.Script(script.Release.SHA)
}

// LoseSET makes the acquire script the first request that comes to the server.
func (op Variant) LoseSET(c *FaultBench) {
	if op.cut {
		c.Proxy.On(faults.Command("SET"), 1, faults.CutBefore)
	}
}
