package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Force is a forced end of all that has a lock. It marks the holds, and waits
// until their holders have acknowledged that, or their leases have ended. See
// docs/internals/force-design.md. It is used once.
type Force struct {
	Locks
	Name, Reason string
	// AtOnce frees the lock without an acknowledgement.
	AtOnce bool
	// Ended gets the names of what is marked, or has ended, perhaps again.
	Ended func(redisKey string, names []string)

	request script.Call // of the lock's family
	pending [][]string  // what is to end, by requests
	all     int         // how many names there were
	left    int         // how many of them were there in the last round
	ends    time.Time   // the last of these ends then; zero if it never does
}

// forceBatch is how many names one request ends.
const forceBatch = 256

// Run returns nil once the lock was handed on. It returns errs.ErrNotHeld if
// the lock is free, errs.ErrKeyConflict if the key is something else, and
// errs.ErrUnconfirmed if there was no answer. If ctx ends while holds are
// marked, its error also matches errs.ErrLockAcquiredByOthers.
func (f *Force) Run(ctx context.Context) error {
	names, err := f.look(ctx)
	if err != nil {
		return err
	}
	slices.Sort(names) // one may be on two pages, if it was renewed meanwhile
	names = slices.Compact(names)
	f.all, f.pending = len(names), slices.Collect(slices.Chunk(names, forceBatch))
	if o, err := f.round(ctx); err != nil {
		if o.Unanswered() {
			return errs.Join(errs.ErrUnconfirmed, err)
		}
		return err
	}
	return f.await(ctx)
}

// look returns the names of all that has the lock. The scripts of all families
// are tried, until one finds its lock.
func (f *Force) look(ctx context.Context) ([]string, error) {
	for _, s := range []*script.Script{script.End, script.RWEnd, script.SemaphoreEnd} {
		f.request = script.Call{Script: s, Key: f.key(f.Name)}
		names, found, err := f.lookThrough(ctx)
		if found || err != nil {
			return names, err
		}
	}
	return nil, errs.ErrKeyConflict
}

// lookThrough reads all pages of a look. found is false if the key is not of
// the script's family.
func (f *Force) lookThrough(ctx context.Context) (names []string, found bool, err error) {
	for cursor, more := "", true; more; more = cursor != "" {
		f.request.Args = []any{"look", cursor}
		o, _ := script.Run(ctx, f.Driver, driver.Limits{}, f.request, nil)
		switch {
		case o.Err != nil:
			return nil, false, driver.ContextErr(ctx, o.Err)
		case o.Reply == int64(script.Conflict):
			return nil, false, nil
		case o.Reply == int64(script.NotHeld) && len(names) == 0:
			return nil, false, errs.ErrNotHeld
		case o.Reply == int64(script.NotHeld):
			return names, true, nil // what the earlier pages have named has ended
		}
		var page []string
		if cursor, page, err = readLook(o.Reply); err != nil {
			return nil, false, err
		}
		names = append(names, page...)
	}
	if len(names) == 0 {
		return nil, false, errs.ErrNotHeld // all permits are kept
	}
	return names, true, nil
}

// round asks for the end of all that is pending, and notes what is left.
//
// A waiter whose reservation has gone may have made it a hold, which is to end
// in its place.
func (f *Force) round(ctx context.Context) (driver.Result, error) {
	var rest [][]string
	var all ended
	for _, names := range f.pending {
		o, e, err := f.end(ctx, names)
		if err != nil {
			return o, err
		}
		all = ended{all.left + e.left, max(all.ms, e.ms), all.gone + e.gone}
		if e.gone > 0 {
			e.left, names = len(names), holdsOf(names)
		}
		if e.left > 0 {
			rest = append(rest, names)
		}
	}
	f.pending, f.left, f.ends = rest, all.left, time.Time{}
	if all.ms >= 0 {
		f.ends = time.Now().Add(time.Duration(all.ms) * time.Millisecond)
	}
	if all.gone > 0 {
		return f.round(ctx) // their names have gone, so it comes once
	}
	return driver.Result{}, nil
}

// holdsOf returns the names of holds, and in place of those of waiters the
// holds that these take.
func holdsOf(names []string) (all []string) {
	for _, name := range names {
		if hold, rest := lockspec.CutHold(name); rest != "" {
			name = hold
		}
		all = append(all, name)
	}
	return all
}

// end asks for the end of what has these names.
func (f *Force) end(ctx context.Context, names []string) (driver.Result, ended, error) {
	how := "end"
	if f.AtOnce {
		how = "free"
	}
	f.request.Args = []any{how, f.Reason}
	for _, name := range names {
		f.request.Args = append(f.request.Args, name)
	}
	o, _ := script.Run(ctx, f.Driver, driver.Limits{}, f.request, nil)
	if o.Err != nil {
		return o, ended{}, driver.ContextErr(ctx, o.Err)
	}
	e, handed, err := readEnd(o.Reply)
	if handed == script.ScanLimit {
		f.PassOn(f.request)
	}
	if e.left > 0 || f.AtOnce {
		f.Ended(f.request.Key, names)
	}
	return o, e, err
}

// ended is what an end has found: how many of the names are left; after how
// many ms the last one ends, -1 if it never does; and of how many waiters the
// reservation has gone.
type ended struct {
	left int
	ms   int64
	gone int
}

// readEnd reads the answer to an end.
func readEnd(reply any) (e ended, handed int64, err error) {
	parts, err := driver.Values(reply, nil)
	if err == nil {
		_, err = driver.Scan(parts, &e.left, &e.ms, &handed, &e.gone)
	}
	return e, handed, err
}

// readLook reads the answer to a look.
func readLook(reply any) (cursor string, names []string, err error) {
	parts, err := driver.Values(reply, nil)
	if err == nil {
		var rest []any
		rest, err = driver.Scan(parts, new(int64), &cursor)
		if err == nil {
			names, err = driver.Strings(rest, nil)
		}
	}
	return cursor, names, err
}
