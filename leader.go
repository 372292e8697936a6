package relock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// Leader is a candidate in an election. Of all Leaders with the same key, whose
// Lockers share a backend, at most one leads at a time. The exceptions are
// those of a lock: an operator who forces it open [WithoutAck], and a failover
// that loses it. A Leader can be used from any goroutine, and needs no closing.
type Leader struct {
	locker Locker
	key    string

	mu      sync.Mutex // guards the fields below
	running bool       // a Run has not returned
	hold    Hold       // of the current term; nil between terms
}

// NewLeader returns a candidate for the lock with this name of l. It does no
// I/O. A nil Locker is [ErrInvalid] in Run.
//
// The options of l are those of the leadership. After a crash of the leader,
// another candidate leads when the lease has ended: by default after 30 seconds
// at most, see [WithWatchdog]. [WithFair] makes candidates lead in the order in
// which they campaigned, [WithMaxHold] limits a term, and [WithLabel] names the
// candidate for [Client.Inspect].
func NewLeader(l Locker, key string) *Leader { return &Leader{locker: l, key: key} }

// Pauses between terms.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
	longTerm     = time.Minute // after it, the pause is the first one again
)

// Run campaigns for the lock, and runs fn while it leads. It repeats that until
// ctx is cancelled, or fn returns nil without a loss of the leadership.
//
// The context of fn is cancelled with ctx, and when the leadership is lost,
// before anyone else can lead. It carries the hold, as that of [Do] does. Then
// fn must return. Until it does, this Run does not campaign, so fn never runs
// twice at the same time. When fn has returned, or has panicked, the lock is
// released.
//
// If fn returns an error, or the leadership is lost, Run pauses before it
// campaigns again, so that others can lead first. The pause is 1s. It doubles
// after each term of less than a minute, to 30s at most. It is shortened by up
// to a fifth at random. Run does not return the error of fn: log it in fn.
//
// A campaign that fails is repeated after a pause too, also after [ErrDenied]
// and [ErrKeyConflict]. So a password that is wrong for a while leaves no
// process without a candidate. If the Locker has a method Logger that returns a
// [slog.Logger], as those for Redis and etcd do, each such failure is logged.
//
// If ctx is cancelled, Run returns nil, whatever fn returns. Otherwise it
// returns nil if fn did, or the error of a campaign that no later one can mend:
//   - [ErrInvalid]: a mistake in the arguments, or another Run of this Leader
//     has not returned
//   - [ErrClosed]: the client of the Locker was closed
//   - [ErrLockLost]: ctx carries a hold of this lock, which was lost
func (e *Leader) Run(ctx context.Context, fn func(context.Context) error) error {
	if err := e.begin(ctx, fn); err != nil {
		return wrap("run", e.key, err)
	}
	defer e.end()
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		led, err := e.term(ctx, fn)
		switch {
		case err == nil:
			return nil
		case led >= longTerm:
			pause = firstPause
		case ctx.Err() != nil || !NotRun(err):
		case isFinal(err):
			return err
		default:
			e.warn(err)
		}
		rest(ctx, pause-rand.N(pause/5))
	}
	return nil
}

// IsLeader returns nil while fn runs in Run and its hold is valid by the clock.
// Then no other process leads. Otherwise the error matches [ErrNotHeld], or
// says why the leadership has ended while fn still runs. IsLeader sends nothing
// and does not use ctx. Its form is that of gocron.Elector.
func (e *Leader) IsLeader(context.Context) error {
	e.mu.Lock()
	hold := e.hold
	e.mu.Unlock()
	if hold == nil {
		return wrap("hold", e.key, ErrNotHeld)
	}
	return hold.Err()
}

// String returns "leader" and the quoted name.
func (e *Leader) String() string { return "leader " + strconv.Quote(e.key) }

// begin makes the caller the only Run of the Leader.
func (e *Leader) begin(ctx context.Context, fn func(context.Context) error) error {
	switch {
	case ctx == nil:
		return errNilContext
	case fn == nil:
		return errNilFn
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return errRunning
	}
	e.running = true
	return nil
}

var errRunning = fmt.Errorf("%w: leader: another Run has not returned", ErrInvalid)

func (e *Leader) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = false
}

// term campaigns, and runs fn once while the lock is held. It returns how long
// fn ran, and the error of Do.
func (e *Leader) term(ctx context.Context, fn func(context.Context) error) (led time.Duration, err error) {
	err = Do(ctx, e.locker, e.key, func(ctx context.Context) error {
		hold, _ := HoldFromContext(ctx, e.key)
		e.lead(hold)
		began := time.Now()
		defer func() {
			e.lead(nil)
			led = time.Since(began)
		}()
		return fn(ctx)
	})
	return led, err
}

// lead sets the hold of the current term, or ends the term with nil.
func (e *Leader) lead(hold Hold) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = hold
}

// isFinal reports whether no later campaign can succeed after err.
func isFinal(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrClosed) || errors.Is(err, ErrLockLost)
}

// warn logs why a campaign failed, since no caller gets the error.
func (e *Leader) warn(err error) {
	l, ok := e.locker.(interface{ Logger() *slog.Logger })
	if !ok {
		return
	}
	if log := l.Logger(); log != nil {
		log.Warn("relock: campaign failed", "key", e.key, "reason", err.Error())
	}
}

// rest returns after d, or when ctx is cancelled.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
