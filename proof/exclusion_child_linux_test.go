package proof

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

const (
	contenders      = 8 // goroutines of a process
	contentionLease = 200 * time.Millisecond
	contentionPoll  = 2 * time.Millisecond
	// workTime is the time that a holder takes before it calls Err, and again
	// before its write. The second one lets some stops come in between.
	workTime = 200 * time.Microsecond
)

// noLock replaces the kind of lock. Each goroutine gets a separate key: it
// looks like a lock and excludes no other.
const noLock = "no lock"

// contender is one goroutine that increments the register under the lock.
type contender struct {
	self      *faults.Self
	lock      processLock
	nested    bool
	shared    *register
	goroutine int
}

// contenderRole increments a register until the test ends it. Arguments:
// network, address, kind, register.
func contenderRole(self *faults.Self, client *relock.Client) error {
	shared, err := openShared[register](self.Args[3])
	if err != nil {
		return err
	}
	ctx := self.Context()
	return faults.Together(contenders, func(i int) error {
		c := &contender{
			self: self, lock: contendedLock(self, client, i), nested: self.Args[2] == reentrant, shared: shared, goroutine: i,
		}
		return c.run(ctx)
	})
}

func contendedLock(self *faults.Self, client *relock.Client, goroutine int) processLock {
	kind, key := self.Args[2], "contended"
	if kind == noLock {
		key = fmt.Sprint("own-", os.Getpid(), "-", goroutine)
	}
	return newLockOf(kind, key, client,
		relock.WithBlock(), relock.WithWatchdog(contentionLease), relock.WithPollInterval(contentionPoll))
}

func (c *contender) run(ctx context.Context) error {
	for n := 0; ; n++ {
		hold, err := c.lock.Acquire(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case err != nil:
			return fmt.Errorf("acquire: %w", err)
		}
		s := &section{from: faults.Now(), goroutine: c.goroutine}
		c.work(ctx, hold, s, n)
		s.ends(s.endOf(hold))
		// This is reported before Unlock: a process that was killed before the
		// report was a holder until then.
		c.self.Emit("end", c.goroutine, s.done, s.from, s.until, s.valid, s.checked, s.wrote, s.read, s.before)
		if err := hold.Unlock(ctx); err != nil && !errors.Is(err, relock.ErrLockLost) &&
			!errors.Is(err, relock.ErrUnconfirmed) {
			return fmt.Errorf("unlock: %w", err)
		}
	}
}

// work reads, calls Err as documented, and writes. Every fourth section of a
// reentrant lock is nested.
func (c *contender) work(ctx context.Context, hold relock.Hold, s *section, n int) {
	s.read = c.shared.read()
	s.observe(hold)
	if c.nested && n%4 == 0 {
		inner, err := c.lock.Acquire(ctx)
		if err != nil {
			return // lost, or the run is over
		}
		defer inner.Unlock(ctx) //nolint:errcheck // what the outer level says counts
	}
	time.Sleep(workTime)
	s.checked = faults.Now()
	s.valid = s.observe(hold)
	if hold.Err() != nil {
		s.ends(s.checked)
		return
	}
	c.self.Emit("write", c.goroutine, s.from, s.until, s.read)
	time.Sleep(workTime)
	s.before = c.shared.write(s.value())
	s.wrote, s.done = faults.Now(), true
	s.observe(hold)
}

// observe records until when the hold reports to be valid. After its end the
// last such time stays.
func (s *section) observe(hold relock.Hold) int64 {
	now := faults.Now()
	if until := hold.ValidUntil(); !until.IsZero() {
		s.until, s.seen = faults.Stamp(until), now
	}
	return s.until
}

// endOf returns when the work with a hold has ended. One that was ended by
// force was certainly valid when it was last seen so: others may have had the
// lock since then.
func (s *section) endOf(hold relock.Hold) int64 {
	now := faults.Now()
	if errors.Is(hold.Err(), relock.ErrForced) {
		return s.seen
	}
	return now
}

// ends limits the recorded validity.
func (s *section) ends(at int64) { s.until = min(s.until, at) }
