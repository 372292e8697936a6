package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
)

// kind is a kind of lock, with the requests of its operations.
type kind struct {
	title                          string
	lock                           func(c *cell, client *relock.Client, opts ...relock.LockOption) locktest.AnyLock
	acquire, enter, renew, release faults.Match
	levels                         int    // at most
	cut                            bool   // the SET before the script is lost
	fixed                          bool   // only with a fixed lease, unless it is renewed
	keeps                          bool   // with a minimum hold too
	order                          string // of the levels of a read/write lock, r or w; that of a semaphore is w
	group                          bool   // of several keys or nodes
	nodes                          bool   // of a RedLock
}

var (
	plainBySET = kind{
		title: "plain by SET", lock: lockOf("RedisLock"), levels: 1, keeps: true,
		acquire: faults.Command("SET"), renew: faults.Script(script.Renew.SHA), release: faults.Script(script.Release.SHA),
	}
	plainByScript = kind{
		title: "plain by script", lock: lockOf("RedisLock"), cut: true,
		acquire: faults.Script(script.Acquire.SHA), release: faults.Script(script.Release.SHA),
	}
	reentrant = kind{
		title: "reentrant", lock: lockOf("ReentrantLock"), levels: 3, keeps: true,
		acquire: faults.Script(script.ReentrantAcquire.SHA), enter: faults.Script(script.ReentrantEnter.SHA),
		renew: faults.Script(script.ReentrantRenew.SHA), release: faults.Script(script.ReentrantRelease.SHA),
	}
	semaphore = kind{
		title: "semaphore", lock: lockOf("Semaphore"), levels: 1, order: "w",
		acquire: faults.Script(script.SemaphoreTry.SHA), renew: faults.Script(script.SemaphoreRenew.SHA),
		release: faults.Script(script.SemaphoreRelease.SHA),
	}
	multi = kind{
		title: "multi", levels: 1, group: true, acquire: faults.Script(script.MultiAcquire.SHA),
		release: faults.Script(script.Release.SHA),
		lock: func(_ *cell, client *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
			return relock.NewMultiLock(multiKeys, client, opts...)
		},
	}
	red = kind{
		title: "red", levels: 1, group: true, nodes: true, acquire: faults.Script(script.RedLockAcquire.SHA),
		release: locktest.RedReleases,
		lock: func(c *cell, client *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
			clients := append([]*relock.Client{client}, c.peers...)
			return locktest.NewPatientRedLock(locktest.FaultKey, clients, opts...)
		},
	}
	multiKeys = []string{locktest.FaultKey, "second", "third"}
)

// lockOf returns a function that makes a cell's lock, of a kind of locktest.
func lockOf(kind string) func(*cell, *relock.Client, ...relock.LockOption) locktest.AnyLock {
	return func(_ *cell, client *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
		return locktest.AllKinds[kind](locktest.FaultKey, client, opts...)
	}
}

func readWrite(order string, levels int) kind {
	return kind{
		title: order, lock: lockOf("RWLock"), order: order, levels: levels, fixed: true,
		acquire: faults.Script(script.RWTry.SHA), enter: faults.Script(script.RWEnter.SHA),
		renew: faults.Script(script.RWRenew.SHA), release: faults.Script(script.RWRelease.SHA),
	}
}

// operation is what a fault happens in.
type operation struct {
	kind
	does    string
	levels  int // before
	watched bool
	match   faults.Match // of the request
	run     func(c *cell, ctx context.Context)
	keeps   bool // WithMinHold
}

// operationsOf returns all operations of these kinds, at all levels, under both
// kinds of lease.
func operationsOf(kinds []kind) (all []operation) {
	for _, k := range kinds {
		for _, watched := range []bool{true, false} {
			for n := 0; n <= k.levels; n++ {
				usual := !watched || !k.fixed
				for _, o := range []struct {
					operation
					exists bool
				}{
					{operation{does: "acquire", match: k.acquire, run: (*cell).acquire}, n == 0 && usual && len(k.order) < 2},
					{operation{does: "enter", match: k.enter, run: (*cell).acquire}, n > 0 && usual && k.enter != nil},
					{operation{does: "renew", match: k.renew, run: (*cell).renewOnce}, n > 0 && watched && k.renew != nil},
					{operation{does: "extend", match: k.renew, run: (*cell).extend}, n > 0 && usual && k.renew != nil},
					{operation{does: "release", match: k.release, run: (*cell).unlock}, n > 0 && usual},
					{operation{does: "release", match: k.release, run: (*cell).unlock, keeps: true}, n > 0 && usual && k.keeps},
				} {
					if o.exists {
						o.kind, o.levels, o.watched = k, n, watched
						all = append(all, o.operation)
					}
				}
			}
		}
	}
	return all
}

func (op operation) name() string {
	suffix := map[bool]string{true: "/watched", false: "/fixed"}[op.watched]
	if op.keeps {
		suffix += "/minimum hold"
	}
	return fmt.Sprintf("%s/%s at level %d%s", op.title, op.does, op.levels, suffix)
}

func (op operation) releases() bool { return op.does == "release" }

// silence is the command timeout where there is no answer, which a cell waits
// for.
const silence = 2 * time.Second

// patience is the command timeout. A release divides it: one half for the
// request that meets the fault, one for the next try.
func (op operation) patience(f fault) time.Duration {
	switch {
	case !f.silent:
		return locktest.FaultPatience
	case op.releases():
		return 3 * silence / 2
	}
	return silence
}

// minHold is longer than a cell takes to its release.
func (op operation) minHold(f fault) time.Duration {
	if f.silent {
		return op.patience(f)
	}
	return 2 * locktest.AnswerLimit
}

// options are those of the operation's lease.
func (op operation) options() []relock.LockOption {
	if op.watched {
		return []relock.LockOption{relock.WithWatchdog(locktest.FaultLease)}
	}
	return []relock.LockOption{relock.WithExpiry(locktest.FaultLease)}
}

func (c *cell) acquire(ctx context.Context) {
	start := time.Now()
	h, err := c.take(ctx, c.lock)
	if c.requireOutcome(ctx, err) {
		c.holds = append(c.holds, h)
		c.requireValid(start, locktest.FaultLease)
	}
}

// renewOnce has the hold renewed until it is: the first time with the fault.
func (c *cell) renewOnce(context.Context) {
	h, until := c.holds[0], c.until
	locktest.RenewNow(h)
	c.WaitFor(2*locktest.FaultPatience, func() bool { return h.ValidUntil().After(until) }, "not valid for longer")
	if c.fault.silent {
		require.GreaterOrEqual(c, c.Proxy.Count(c.match), 2, "a renewal counts that was not answered")
	}
	c.until = h.ValidUntil()
}

func (c *cell) extend(ctx context.Context) {
	const extension = 12 * time.Second // longer than the lease
	start := time.Now()
	if c.requireOutcome(ctx, c.holds[0].Extend(ctx, extension)) {
		c.requireValid(start, extension)
	}
}

// unlock leaves the newest level.
func (c *cell) unlock(ctx context.Context) {
	newest := len(c.holds) - 1
	h := c.holds[newest]
	c.holds = c.holds[:newest]
	require.NoError(c, h.Unlock(ctx))
	require.ErrorIs(c, h.Err(), relock.ErrNotHeld)
}

// requireOutcome checks the error of a call that may fail, and reports whether
// it was granted.
func (c *cell) requireOutcome(ctx context.Context, err error) bool {
	c.Helper()
	if c.fault.granted || c.nodes {
		require.NoError(c, err)
		return true
	}
	require.Error(c, err)
	for _, other := range []error{
		relock.ErrLockAcquiredByOthers, relock.ErrLockLost, relock.ErrNotHeld, relock.ErrKeyConflict,
	} {
		require.NotErrorIs(c, err, other)
	}
	if ctx.Err() != nil {
		require.ErrorIs(c, err, ctx.Err())
	} else {
		require.True(c, relock.IsRetryableErr(err), err)
		require.Equal(c, c.fault.silent, errors.Is(err, os.ErrDeadlineExceeded), err)
	}
	return false
}

// requireValid checks that a hold is valid for what was granted, counted from a
// sending between start and now.
func (c *cell) requireValid(start time.Time, length time.Duration) {
	c.Helper()
	length -= lockspec.Drift(length)
	c.until = c.holds[0].ValidUntil()
	require.False(c, c.until.Before(start.Add(length)), "valid for less than was granted")
	if !c.watched { // else it may have been renewed
		require.False(c, c.until.After(time.Now().Add(length)), "valid for longer than was granted")
	}
}
