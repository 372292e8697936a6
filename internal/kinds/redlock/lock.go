package redlock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// Lock acquires a RedLock: a lock on several servers, its nodes. More than half
// of them must grant it.
type Lock struct {
	acquire.Shared

	nodes       []*lease.Manager
	need        int                             // how many nodes are a quorum
	whole, part lockspec.Spec                   // of the group, and of its members
	named       func(node int, err error) error // adds the node to err
}

// New returns a Lock for the lock on the nodes.
func New(t *acquire.Target, nodes []*lease.Manager, named func(node int, err error) error) *Lock {
	l := &Lock{Shared: acquire.NewShared(t), nodes: nodes, need: len(nodes)/2 + 1, named: named}
	l.whole, l.part = t.Settings.Split()
	return l
}

// Take acquires the lock. If lasting is true, the hold belongs to the object
// until its release. The call ends when too many clients were closed.
func (l *Lock) Take(ctx context.Context, block, lasting bool) (h *lease.Hold, waited bool, err error) {
	if err := l.ready(ctx); err != nil {
		return nil, false, err
	}
	if block {
		if err := l.CheckSelfWait(l.inTheWay(ctx)); err != nil {
			return nil, false, err
		}
	}
	life, end := l.life()
	defer end()
	w := acquire.NewWait(ctx, l.Target, block)
	w.Nodes = &attempt{lock: l, call: w, life: life} // without a round
	return l.Run(w, lasting, l.compete)
}

func (l *Lock) compete(w *acquire.Wait) (*lease.Hold, error) {
	a := &attempt{
		lock: l, call: w, life: w.Nodes.Life(),
		asking: make([]atomic.Bool, len(l.nodes)), waits: newWaiters(l, w),
	}
	w.Nodes = a
	h, err := w.Acquire(a.try)
	a.waits.end()
	return h, a.explain(err)
}

// inTheWay returns the hold of this key in ctx that the call would wait for, or
// nil. That is a hold of the first client, or a RedLock's hold that leaves no
// quorum of the clients.
func (l *Lock) inTheWay(ctx context.Context) *lease.Hold {
	for one := carried.By(ctx); one != nil; one = one.Next {
		h, ok := one.Hold.(*lease.Hold)
		if !ok || !h.Covers(l.Key) || h.Family() != lockspec.PlainFamily || h.IsUnlocked() {
			continue
		}
		quorum := h.Kind() == lockspec.Quorum
		if quorum && l.free(h) < l.need || !quorum && h.IsOf(l.Manager) {
			return h
		}
	}
	return nil
}

// free returns how many of the clients have no member of another hold.
func (l *Lock) free(other *lease.Hold) (n int) {
	for _, c := range l.nodes {
		if !other.IsOf(c) {
			n++
		}
	}
	return n
}

// ready returns an error if a call cannot begin.
func (l *Lock) ready(ctx context.Context) error {
	switch {
	case l.closed() > len(l.nodes)-l.need:
		return errs.ErrClosed
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

// closed returns how many of the clients were closed.
func (l *Lock) closed() (n int) {
	for _, c := range l.nodes {
		if c.Life.Err() != nil {
			n++
		}
	}
	return n
}

// life returns a context that is cancelled when so many clients were closed
// that the others are no quorum.
func (l *Lock) life() (life context.Context, end func()) {
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
func (l *Lock) patience() time.Duration { return max(50*time.Millisecond, l.part.Lease/5) }

// shortPatience returns how long a round still waits once a quorum has answered
// and others hold some of it.
func (l *Lock) shortPatience() time.Duration { return max(50*time.Millisecond, l.patience()/10) }

// leastUp returns how many seconds a server must be up before it counts. The
// server's own count may be ahead by one.
func (l *Lock) leastUp() int64 {
	return int64((l.Settings.MaxLease+time.Second-1)/time.Second) + 1
}

// errYoung returns why a node does not count yet.
func (l *Lock) errYoung(up int64) error {
	return fmt.Errorf("the server was started %d s ago, counts from %d s on: it may have forgotten a lock",
		up, l.leastUp())
}
