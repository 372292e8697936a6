package acquire

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// Quorum is how a lock on several servers, its nodes, is acquired: by the
// grants of more than half of them.
type Quorum struct {
	*Target
	shared

	nodes       []*lease.Manager
	need        int
	whole, part lockspec.Spec
	named       func(node int, err error) error // says of which node err is
}

// NewQuorum returns how the lock on the nodes is acquired.
func NewQuorum(t *Target, nodes []*lease.Manager, named func(node int, err error) error) *Quorum {
	l := &Quorum{Target: t, nodes: nodes, need: len(nodes)/2 + 1, named: named}
	l.whole, l.part = t.Settings.Split()
	return l
}

// Take acquires the lock. If it is lasting the hold is the object's. The call
// ends when too many nodes were closed.
func (l *Quorum) Take(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	if block && l.waitsForItself(l.inTheWay(ctx)) {
		return nil, errSelfWait
	}
	life, end := l.life()
	defer end()
	return l.takeBy(newWait(ctx, life, &l.Settings, block), lasting, l.compete)
}

func (l *Quorum) compete(w *wait) (*lease.Hold, error) {
	a := &redAttempt{lock: l, call: w, asking: make([]atomic.Bool, len(l.nodes)), waits: newRedWaits(l, w)}
	defer a.waits.end()
	return w.acquire(a.try)
}

// inTheWay is a hold of this key that ctx carries and that the call would wait for: one of the first client's, or a RedLock's
// that leaves no quorum of the clients.
func (l *Quorum) inTheWay(ctx context.Context) *lease.Hold {
	for one := carried.By(ctx); one != nil; one = one.Next {
		h, ok := one.Hold.(*lease.Hold)
		if !ok || !h.Covers(l.Key) || h.Family() != lockspec.PlainFamily || h.IsUnlocked() {
			continue
		}
		if h.IsQuorum() && l.free(h) < l.need || !h.IsQuorum() && h.IsOf(l.Manager) {
			return h
		}
	}
	return nil
}

// free is how many of the clients have no part of another hold.
func (l *Quorum) free(other *lease.Hold) (n int) {
	for _, c := range l.nodes {
		if !other.IsOf(c) {
			n++
		}
	}
	return n
}

// ready returns why a call cannot begin.
func (l *Quorum) ready(ctx context.Context) error {
	switch {
	case l.closed() > len(l.nodes)-l.need:
		return errs.ErrClosed
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

// closed is how many of the clients were closed.
func (l *Quorum) closed() (n int) {
	for _, c := range l.nodes {
		if c.Life.Err() != nil {
			n++
		}
	}
	return n
}

// life ends when so many clients were closed that the others are no quorum.
func (l *Quorum) life() (life context.Context, end func()) {
	life, cancel := context.WithCancel(context.Background())
	stops := make([]func() bool, len(l.nodes))
	for i, c := range l.nodes {
		stops[i] = context.AfterFunc(c.Life, func() {
			if l.closed() > len(l.nodes)-l.need {
				cancel()
			}
		})
	}
	return life, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// patience is how long a node is waited for.
func (l *Quorum) patience() time.Duration { return max(50*time.Millisecond, l.part.Lease/5) }

// shortPatience is how long that is once a quorum has answered, others among it.
func (l *Quorum) shortPatience() time.Duration { return max(50*time.Millisecond, l.patience()/10) }

// leastUp is how many seconds a server has to be up, by its own count, which may be ahead by one.
func (l *Quorum) leastUp() int64 {
	return int64((l.Settings.MaxLease+time.Second-1)/time.Second) + 1
}

// errYoung is why a node is not counted.
func (l *Quorum) errYoung(up int64) error {
	return fmt.Errorf("the server was started %d s ago, and is not counted before %d s: it may have forgotten a lock", up, l.leastUp())
}
