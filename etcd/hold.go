package etcdlock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
)

var _ relock.Hold = (*level)(nil)

// Key returns the name of the lock.
func (h *level) Key() string { return h.grant.name }

// Fence returns the create revision of the hold's key. It is larger than that
// of any earlier hold of the lock.
func (h *level) Fence() int64 { return h.grant.rev }

// Context returns a context that is cancelled when the hold ends.
func (h *level) Context() context.Context {
	ctx, cancel := holds.New(h.values, h)
	h.grant.holders.mu.Lock()
	defer h.grant.holders.mu.Unlock()
	_ = h.grant.checkLocked()
	return h.ends.Use(ctx, cancel)
}

func (h *level) Err() error { return wrap("hold", h.grant.name, h.state()) }

// state returns why the hold has ended by the current clock, or nil.
func (h *level) state() error {
	h.grant.holders.mu.Lock()
	defer h.grant.holders.mu.Unlock()
	_ = h.grant.checkLocked() // ends the levels if the grant is no longer valid
	return h.ends.Err()
}

func (h *level) ValidUntil() time.Time {
	g := h.grant
	g.holders.mu.Lock()
	defer g.holders.mu.Unlock()
	_ = g.checkLocked()
	if h.ends.Err() != nil {
		return time.Time{}
	}
	return g.untilLocked()
}

// Remaining returns how long the hold is still valid, or 0 if it has ended.
func (h *level) Remaining() time.Duration { return holds.Remaining(h.ValidUntil()) }

// Unlock ends the level. The last one also ends the hold. Only the values of
// ctx are used.
func (h *level) Unlock(ctx context.Context) error {
	if ctx == nil {
		ctx = context.Background() // the hold must end, whatever else is wrong
	}
	h.report.Ended(time.Now())
	last, err := h.leave()
	if err != nil {
		return wrap("unlock", h.grant.name, err) // it had already ended
	}
	if last != nil {
		err = last.release(ctx)
	}
	h.report.Done("unlock", err)
	return wrap("unlock", h.grant.name, err)
}

// Extend makes the lease last at least d from now. If d is longer than the
// Locker's TTL, the hold gets a separate lease of that length. That lease is
// renewed like the other one. If the process dies, the lock is free when that
// lease ends.
func (h *level) Extend(ctx context.Context, d time.Duration) error {
	return wrap("extend", h.grant.name, h.extend(ctx, d))
}

func (h *level) extend(ctx context.Context, d time.Duration) error {
	switch {
	case ctx == nil:
		return errNilContext
	case d > maxTTL:
		return fmt.Errorf("%w: Extend: %v is above %v", relock.ErrInvalid, d, maxTTL)
	case d < minExtend || d%time.Millisecond != 0:
		return fmt.Errorf("%w: Extend: %v is not a whole number of milliseconds, 10 or more", relock.ErrInvalid, d)
	}
	if err := h.state(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errs.EndOf(ctx, nil)
	}
	ctx, leave := both(ctx, h.grant.holders.life)
	defer leave()
	err := h.grant.lengthen(ctx, d)
	if over := h.state(); over != nil {
		return over // it may have been unlocked meanwhile
	}
	if err != nil && ctx.Err() != nil {
		return errs.EndOf(ctx, nil)
	}
	return err
}

// String returns a text without ids, for code that prints a hold.
func (h *level) String() string { return "hold of " + strconv.Quote(h.grant.name) }

// Cmp is the comparison that is true as long as etcd has the hold. In the If of
// a transaction through the Locker's client it makes sure that nothing is
// written by a holder that has lost its lock: what a fencing token does
// elsewhere, without one.
//
// A hold that is not a [Locker]'s is an error that matches [relock.ErrInvalid].
func Cmp(hold relock.Hold) (clientv3.Cmp, error) {
	h, ok := hold.(*level)
	if !ok || h == nil {
		return clientv3.Cmp{}, wrap("cmp", "", fmt.Errorf("%w: hold: is not one of etcdlock", relock.ErrInvalid))
	}
	return h.grant.byRevision(h.grant.rev), nil
}
