package relock

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/script"
)

// variant is an operation at some level and under some kind of lease, in whose request a fault can be.
type variant struct {
	name      string
	reentrant bool
	levels    int          // before
	match     faults.Match // of the request
	run       func(ctx context.Context, c *cellWithFault)
	first     bool // it acquires: there is no hold before, and a copy that comes late may make one
	cut       bool // the SET before it is lost
	renews    bool // the watchdog does it
	releases  bool
	lease     string // "watched" or "fixed"
	keeps     bool   // WithMinHold
	rw        string // of a read/write lock: the levels in their order, r or w
}

const (
	// silence is the command timeout where there is no answer, which a cell has to wait for.
	silence = 2 * time.Second
	// extension is longer than the lease.
	extension = 12 * time.Second
)

func plainVariants() []variant {
	release := faults.Script(script.Release.SHA)
	return []variant{
		{name: "plain acquire by SET", match: faults.Command("SET"), first: true, run: runAcquire},
		{name: "plain acquire by script", match: faults.Script(script.Acquire.SHA), first: true, cut: true, run: runAcquire},
		{name: "plain renewal", levels: 1, match: faults.Script(script.Renew.SHA), renews: true, run: runRenewal},
		{name: "plain extension", levels: 1, match: faults.Script(script.Renew.SHA), run: runExtension},
		{name: "plain release", levels: 1, match: release, releases: true, run: runRelease},
		{name: "plain release that keeps", levels: 1, match: release, releases: true, run: runRelease, keeps: true},
	}
}

func reentrantVariants() []variant {
	enter, renew, release := faults.Script(script.ReentrantEnter.SHA), faults.Script(script.ReentrantRenew.SHA), faults.Script(script.ReentrantRelease.SHA)
	all := []variant{{name: "reentrant acquire", match: faults.Script(script.ReentrantAcquire.SHA), first: true, run: runAcquire}}
	for n := 1; n <= 3; n++ {
		all = append(
			all,
			variant{name: fmt.Sprintf("re-entry at level %d", n+1), levels: n, match: enter, run: runAcquire},
			variant{name: fmt.Sprintf("renewal of level %d", n), levels: n, match: renew, renews: true, run: runRenewal},
			variant{name: fmt.Sprintf("extension of level %d", n), levels: n, match: renew, run: runExtension},
			variant{name: fmt.Sprintf("release of level %d", n), levels: n, match: release, releases: true, run: runRelease},
			variant{name: fmt.Sprintf("release that keeps of level %d", n), levels: n, match: release, releases: true, run: runRelease, keeps: true},
		)
	}
	for i := range all {
		all[i].reentrant = true
	}
	return all
}

// variants are all of them, under both kinds of lease.
func variants() []variant {
	var all []variant
	for _, op := range append(plainVariants(), reentrantVariants()...) {
		for _, op.lease = range []string{"watched", "fixed"} {
			if !op.renews || op.lease == "watched" {
				all = append(all, op)
			}
		}
	}
	return all
}

func variantsThat(wanted func(variant) bool) []variant {
	var all []variant
	for _, op := range variants() {
		if wanted(op) {
			all = append(all, op)
		}
	}
	return all
}

// acquirers are the requests that make a hold, and renewers the watchdog's.
func acquirers() []variant { return variantsThat(func(op variant) bool { return op.first }) }
func renewers() []variant  { return variantsThat(func(op variant) bool { return op.renews }) }

func (op variant) fullName() string { return op.name + "/" + op.lease }

// lock is the operation's kind of lock with a lease of this length.
func (op variant) lock(c *Client, lease time.Duration, opts ...LockOption) anyLock {
	if op.lease == "fixed" {
		opts = append(opts, WithExpiry(lease))
	} else {
		opts = append(opts, WithWatchdog(lease))
	}
	if op.rw != "" {
		return newRWLevels(op.rw, NewRWLock(cellKey, c, opts...))
	}
	if op.reentrant {
		return NewReentrantLock(cellKey, c, opts...)
	}
	return NewRedisLock(cellKey, c, opts...)
}

// patience is the command timeout. A release divides it: one half for the request that meets the fault, one for the next try.
func (op variant) patience(f fault) time.Duration {
	switch {
	case !f.silent:
		return cellPatience
	case op.releases:
		return 3 * silence / 2
	}
	return silence
}

// minHold is longer than a cell takes to its release.
func (op variant) minHold(f fault) time.Duration {
	if f.silent {
		return op.patience(f)
	}
	return 2 * answerLimit
}

// giveBack matches what gives the lock back.
func (op variant) giveBack() faults.Match {
	if op.rw != "" {
		return faults.Script(script.RWRelease.SHA)
	}
	if op.reentrant {
		return faults.Script(script.ReentrantRelease.SHA)
	}
	return faults.Script(script.Release.SHA)
}

// loseSET makes the acquire script the first request that comes to the server.
func (op variant) loseSET(c *cell) {
	if op.cut {
		c.proxy.On(faults.Command("SET"), 1, faults.CutBefore)
	}
}

func runAcquire(ctx context.Context, c *cellWithFault) {
	start := time.Now()
	h, err := c.lock.TryAcquire(ctx)
	if c.requireOutcome(ctx, err) {
		c.holds = append(c.holds, h)
		c.requireBelief(start, cellLease)
	}
}

func runRelease(ctx context.Context, c *cellWithFault) { c.unlock(ctx) }

// runRenewal has the hold renewed until it is: the first time with the fault.
func runRenewal(_ context.Context, c *cellWithFault) {
	h, until := c.holds[0].(hold).level, c.until
	h.Lease().RenewNow() // it is due now
	c.waitFor(2*cellPatience, func() bool { return h.ValidUntil().After(until) }, "the renewal is not believed")
	if c.fault.silent {
		require.GreaterOrEqual(c, c.proxy.Count(c.op.match), 2, "a renewal is believed that was not answered")
	}
	c.until = h.ValidUntil()
}

func runExtension(ctx context.Context, c *cellWithFault) {
	start := time.Now()
	if c.requireOutcome(ctx, c.holds[0].Extend(ctx, extension)) {
		c.requireBelief(start, extension)
	}
}
