package locktest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/script"
)

// Variant is an operation at some level and under some kind of lease, in whose request a fault can be.
type Variant struct {
	Name      string
	reentrant bool
	Levels    int          // before
	Match     faults.Match // of the request
	Run       func(ctx context.Context, c *CellWithFault)
	First     bool // it acquires: there is no hold before, and a copy that comes late may make one
	cut       bool // the SET before it is lost
	Renews    bool // the watchdog does it
	Releases  bool
	Lease     string // "watched" or "fixed"
	keeps     bool   // WithMinHold
	Rw        string // of a read/write lock: the levels in their order, r or w
}

const (
	// silence is the command timeout where there is no answer, which a cell has to wait for.
	silence = 2 * time.Second
	// extension is longer than the lease.
	extension = 12 * time.Second
)

func plainVariants() []Variant {
	release := faults.Script(script.Release.SHA)
	return []Variant{
		{Name: "plain acquire by SET", Match: faults.Command("SET"), First: true, Run: RunAcquire},
		{Name: "plain acquire by script", Match: faults.Script(script.Acquire.SHA), First: true, cut: true, Run: RunAcquire},
		{Name: "plain renewal", Levels: 1, Match: faults.Script(script.Renew.SHA), Renews: true, Run: RunRenewal},
		{Name: "plain extension", Levels: 1, Match: faults.Script(script.Renew.SHA), Run: RunExtension},
		{Name: "plain release", Levels: 1, Match: release, Releases: true, Run: RunRelease},
		{Name: "plain release that keeps", Levels: 1, Match: release, Releases: true, Run: RunRelease, keeps: true},
	}
}

func reentrantVariants() []Variant {
	enter, renew, release := faults.Script(script.ReentrantEnter.SHA), faults.Script(script.ReentrantRenew.SHA), faults.Script(script.ReentrantRelease.SHA)
	all := []Variant{{Name: "reentrant acquire", Match: faults.Script(script.ReentrantAcquire.SHA), First: true, Run: RunAcquire}}
	for n := 1; n <= 3; n++ {
		all = append(
			all,
			Variant{Name: fmt.Sprintf("re-entry at level %d", n+1), Levels: n, Match: enter, Run: RunAcquire},
			Variant{Name: fmt.Sprintf("renewal of level %d", n), Levels: n, Match: renew, Renews: true, Run: RunRenewal},
			Variant{Name: fmt.Sprintf("extension of level %d", n), Levels: n, Match: renew, Run: RunExtension},
			Variant{Name: fmt.Sprintf("release of level %d", n), Levels: n, Match: release, Releases: true, Run: RunRelease},
			Variant{Name: fmt.Sprintf("release that keeps of level %d", n), Levels: n, Match: release, Releases: true, Run: RunRelease, keeps: true},
		)
	}
	for i := range all {
		all[i].reentrant = true
	}
	return all
}

// Variants are all of them, under both kinds of lease.
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

func VariantsThat(wanted func(Variant) bool) []Variant {
	var all []Variant
	for _, op := range Variants() {
		if wanted(op) {
			all = append(all, op)
		}
	}
	return all
}

// Acquirers are the requests that make a hold, and renewers the watchdog's.
func Acquirers() []Variant { return VariantsThat(func(op Variant) bool { return op.First }) }
func Renewers() []Variant  { return VariantsThat(func(op Variant) bool { return op.Renews }) }

func (op Variant) FullName() string { return op.Name + "/" + op.Lease }

// Lock is the operation's kind of lock with a lease of this length.
func (op Variant) Lock(c *relock.Client, lease time.Duration, opts ...relock.LockOption) AnyLock {
	if op.Lease == "fixed" {
		opts = append(opts, relock.WithExpiry(lease))
	} else {
		opts = append(opts, relock.WithWatchdog(lease))
	}
	if op.Rw != "" {
		return newRWLevels(op.Rw, relock.NewRWLock(CellKey, c, opts...))
	}
	if op.reentrant {
		return relock.NewReentrantLock(CellKey, c, opts...)
	}
	return relock.NewRedisLock(CellKey, c, opts...)
}

// Patience is the command timeout. A release divides it: one half for the request that meets the fault, one for the next try.
func (op Variant) Patience(f Fault) time.Duration {
	switch {
	case !f.Silent:
		return CellPatience
	case op.Releases:
		return 3 * silence / 2
	}
	return silence
}

// minHold is longer than a cell takes to its release.
func (op Variant) minHold(f Fault) time.Duration {
	if f.Silent {
		return op.Patience(f)
	}
	return 2 * AnswerLimit
}

// GiveBack matches what gives the lock back.
func (op Variant) GiveBack() faults.Match {
	if op.Rw != "" {
		return faults.Script(script.RWRelease.SHA)
	}
	if op.reentrant {
		return faults.Script(script.ReentrantRelease.SHA)
	}
	return faults.Script(script.Release.SHA)
}

// LoseSET makes the acquire script the first request that comes to the server.
func (op Variant) LoseSET(c *Cell) {
	if op.cut {
		c.Proxy.On(faults.Command("SET"), 1, faults.CutBefore)
	}
}

func RunAcquire(ctx context.Context, c *CellWithFault) {
	start := time.Now()
	h, err := c.lock.TryAcquire(ctx)
	if c.requireOutcome(ctx, err) {
		c.holds = append(c.holds, h)
		c.RequireBelief(start, CellLease)
	}
}

func RunRelease(ctx context.Context, c *CellWithFault) { c.Unlock(ctx) }

// RunRenewal has the hold renewed until it is: the first time with the fault.
func RunRenewal(_ context.Context, c *CellWithFault) {
	h, until := Level(c.holds[0]), c.until
	h.Lease().RenewNow() // it is due now
	c.WaitFor(2*CellPatience, func() bool { return h.ValidUntil().After(until) }, "the renewal is not believed")
	if c.Fault.Silent {
		require.GreaterOrEqual(c, c.Proxy.Count(c.Op.Match), 2, "a renewal is believed that was not answered")
	}
	c.until = h.ValidUntil()
}

func RunExtension(ctx context.Context, c *CellWithFault) {
	start := time.Now()
	if c.requireOutcome(ctx, c.holds[0].Extend(ctx, extension)) {
		c.RequireBelief(start, extension)
	}
}
