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

// Quorum acquires a lock on several servers, its nodes. More than half of them
// must grant it.
type Quorum struct {
	*Target
	shared

	nodes       []*lease.Manager
	need        int                             // how many nodes are a quorum
	whole, part lockspec.Spec                   // of the group, and of its members
	named       func(node int, err error) error // adds the node to err
}

// NewQuorum returns a Quorum for the lock on the nodes.
func NewQuorum(t *Target, nodes []*lease.Manager, named func(node int, err error) error) *Quorum {
	l := &Quorum{Target: t, nodes: nodes, need: len(nodes)/2 + 1, named: named}
	l.whole, l.part = t.Settings.Split()
	return l
}

// Take acquires the lock. If lasting is true, the hold belongs to the object
// until its release. The call ends when too many clients were closed.
func (l *Quorum) Take(ctx context.Context, block, lasting bool) (h *lease.Hold, waited bool, err error) {
	if err := l.ready(ctx); err != nil {
		return nil, false, err
	}
	if block && l.waitsForItself(l.inTheWay(ctx)) {
		return nil, false, l.errSelfWait()
	}
	life, end := l.life()
	defer end()
	w := newWait(ctx, life, l.Target, block)
	w.nodes = &redAttempt{lock: l, call: w} // without a round
	return l.takeBy(w, lasting, l.compete)
}

func (l *Quorum) compete(w *wait) (*lease.Hold, error) {
	a := &redAttempt{lock: l, call: w, asking: make([]atomic.Bool, len(l.nodes)), waits: newRedWaits(l, w)}
	w.nodes = a
	h, err := w.acquire(a.try)
	a.waits.end()
	return h, a.explain(err)
}

// inTheWay returns the hold of this key in ctx that the call would wait for, or
// nil. That is a hold of the first client, or a RedLock's hold that leaves no
// quorum of the clients.
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

// free returns how many of the clients have no member of another hold.
func (l *Quorum) free(other *lease.Hold) (n int) {
	for _, c := range l.nodes {
		if !other.IsOf(c) {
			n++
		}
	}
	return n
}

// ready returns an error if a call cannot begin.
func (l *Quorum) ready(ctx context.Context) error {
	switch {
	case l.closed() > len(l.nodes)-l.need:
		return errs.ErrClosed
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

// closed returns how many of the clients were closed.
func (l *Quorum) closed() (n int) {
	for _, c := range l.nodes {
		if c.Life.Err() != nil {
			n++
		}
	}
	return n
}

// life returns a context that is cancelled when so many clients were closed
// that the others are no quorum.
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

// patience returns how long a round waits for a node.
func (l *Quorum) patience() time.Duration { return max(50*time.Millisecond, l.part.Lease/5) }

// shortPatience returns how long a round still waits once a quorum has answered
// and others hold some of it.
func (l *Quorum) shortPatience() time.Duration { return max(50*time.Millisecond, l.patience()/10) }

// leastUp returns how many seconds a server must be up before it counts. The
// server's own count may be ahead by one.
func (l *Quorum) leastUp() int64 {
	return int64((l.Settings.MaxLease+time.Second-1)/time.Second) + 1
}

// errYoung returns why a node does not count yet.
func (l *Quorum) errYoung(up int64) error {
	return fmt.Errorf("the server was started %d s ago, counts from %d s on: it may have forgotten a lock",
		up, l.leastUp())
}
