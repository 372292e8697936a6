package acquire

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/utils"
)

// redAttempt is one call for a RedLock: rounds, each of which asks all nodes at once.
type redAttempt struct {
	lock   *Quorum
	call   *wait
	asking []atomic.Bool // by node: a request of the call is under way
	waits  *redWaits
}

// round is one of them. A node's grant becomes part of its hold when it comes, and is given back when the round has
// failed by then.
type round struct {
	*redAttempt
	id    string
	hold  *lease.Group
	votes chan vote
	until time.Time // nodes are waited for until then

	answered []bool         // by node
	left     int            // votes that are still to come
	ours     int            // nodes that have granted the lock
	tokens   map[int]int64  // their fencing tokens
	others   []vote         // of nodes where others hold it
	failed   []vote         // the rest
	servers  map[string]int // the nodes by what their servers are called
}

// try makes one round, under a value for each node that no other one uses: what is given back is not asked for again.
func (a *redAttempt) try(ctx context.Context) (*lease.Hold, error) {
	l := a.lock
	a.call.rest = 0
	id, err := utils.NewID()
	if err != nil {
		return nil, err
	}
	n := len(l.nodes)
	r := &round{redAttempt: a, id: id, votes: make(chan vote, n), answered: make([]bool, n), left: n, servers: map[string]int{}, tokens: map[int]int64{}}
	r.hold = lease.NewGroup(l.Manager, l.Key, nil, l.need, &l.whole, l.named)
	start := time.Now()
	r.until = start.Add(l.patience())
	for node := range l.nodes {
		r.start(node)
	}
	err = r.count(ctx)
	r.hold.NotifyWaiters(err == nil || errors.Is(err, driver.ErrAbandoned))
	if err == nil && l.part.Fencing {
		err = r.raise(ctx)
	}
	if err != nil {
		r.hold.Abandon()
		a.call.rest = r.rest(err)
		return nil, err
	}
	return r.hold.Grant(a.call.Caller, start, &l.whole)
}

// count takes votes in until the round is decided. No error is a quorum.
func (r *round) count(ctx context.Context) error {
	patience := time.NewTimer(time.Until(r.until))
	defer patience.Stop()
	var late <-chan time.Time
	for {
		decided, err := r.verdict()
		if decided {
			return err
		}
		if late == nil && r.shared() {
			late = time.After(r.lock.shortPatience())
		}
		select {
		case v := <-r.votes:
			if err := r.add(v); err != nil {
				return err
			}
		case <-late:
			r.giveUp()
		case <-patience.C:
			r.giveUp()
		case <-ctx.Done():
			return driver.ErrAbandoned
		}
	}
}

// shared says, of an undecided round, that a quorum has answered, of which others hold some: what the call got it keeps from them while
// it waits for the rest.
func (r *round) shared() bool { return r.ours+len(r.others) >= r.lock.need }

// add counts a vote. Two clients of one server are a mistake.
func (r *round) add(v vote) error {
	r.left--
	r.answered[v.node] = true
	if v.server != "" {
		if other, taken := r.servers[v.server]; taken {
			return fmt.Errorf("%w: clients %d and %d: are of the same server", errs.ErrInvalid, min(v.node, other), max(v.node, other))
		}
		r.servers[v.server] = v.node
	}
	switch v.err {
	case nil:
		r.ours++
		r.tokens[v.node] = v.fence
	case errs.ErrLockAcquiredByOthers: //nolint:errorlint // our own sentinel, as it is
		r.others = append(r.others, v)
	default:
		r.failed = append(r.failed, v)
	}
	return nil
}

// raise makes the highest token that of the hold: a quorum of the nodes has to know it, so that a later hold, which shares a
// node with that, has a higher one. A node that grants the lock meanwhile may stand in for one that fails here.
func (r *round) raise(ctx context.Context) error {
	l, known := r.lock, 0
	for _, fence := range r.tokens {
		r.hold.SetFence(max(r.hold.Fence(), fence))
	}
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	patience := time.NewTimer(time.Until(r.until))
	defer patience.Stop()
	raised, votes := make(chan vote, len(l.nodes)), r.votes
	if r.left == 0 {
		votes = nil // those that come yet were counted as failed
	}
	for node, fence := range r.tokens {
		r.raiseOne(ctx, node, fence, raised)
	}
	for asked := len(r.tokens); known < l.need && known+asked+r.left >= l.need; {
		select {
		case v := <-raised:
			if asked--; v.err != nil {
				r.failed = append(r.failed, v)
				continue
			}
			known++
		case v := <-votes:
			if err := r.add(v); err != nil {
				return err
			}
			if v.err == nil {
				asked++
				r.raiseOne(ctx, v.node, v.fence, raised)
			}
		case <-patience.C:
			votes = nil
			r.giveUp()
		}
	}
	switch {
	case known >= l.need:
		return nil
	case r.call.Caller.Err() != nil:
		return driver.ErrAbandoned
	}
	return r.tooFew()
}

// raiseOne has a node know the token of the hold, which it does already when its own is no lower.
func (r *round) raiseOne(ctx context.Context, node int, fence int64, raised chan<- vote) {
	l, c, token := r.lock, r.lock.nodes[node], r.hold.Fence()
	if fence >= token {
		raised <- vote{node: node}
		return
	}
	started := c.Tasks.Start(func() {
		err := c.Raise(ctx, &l.part, c.RedisKey(l.Key), token)
		if errors.Is(err, driver.ErrAbandoned) {
			err = driver.ErrTimeout
		}
		raised <- vote{node: node, err: err}
	})
	if !started {
		raised <- vote{node: node, err: errs.ErrClosed}
	}
}

// giveUp counts the nodes that have not answered as failed.
func (r *round) giveUp() {
	for node, answered := range r.answered {
		if !answered {
			r.answered[node] = true // though it has not: it is counted once
			r.failed = append(r.failed, vote{node: node, err: driver.ErrTimeout})
		}
	}
	r.left = 0
}

// verdict says whether the round is decided, and why it has failed.
func (r *round) verdict() (decided bool, err error) {
	need := r.lock.need
	switch {
	case r.ours >= need:
		return true, nil
	case r.ours+r.left >= need:
		return false, nil
	case r.ours+len(r.others) >= need:
		return true, errs.ErrLockAcquiredByOthers
	case r.ours+len(r.others)+r.left >= need:
		return false, nil
	}
	return true, r.tooFew()
}

// tooFew is the error of a round in which too few nodes have answered. It matches what is wrong with each of them, but
// what will not pass by itself only where the lock cannot be had without that.
func (r *round) tooFew() error {
	final := 0
	for _, v := range r.failed {
		if !v.passes() {
			final++
		}
	}
	var all []error
	for _, v := range r.failed {
		err := v.err
		if !v.passes() && len(r.lock.nodes)-final >= r.lock.need {
			err = errors.New(err.Error())
		}
		all = append(all, r.lock.named(v.node, err))
	}
	return errs.All(errs.ErrQuorum, all)
}
