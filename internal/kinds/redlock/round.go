package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/utils"
)

// attempt is one call for a RedLock. It makes rounds, and each round sends
// requests to all nodes together.
type attempt struct {
	lock   *Lock
	call   *acquire.Wait
	life   context.Context // cancelled when too few clients are open
	asking []atomic.Bool   // by node; a request of the call is under way
	waits  *waiters
	failed []vote // of the last round in which too few nodes answered

	last    *round        // nil before the first
	outages []outage.Call // by node; only of a call that waits
}

// round is one round of a call. A node's grant joins the group when it arrives.
// If the round has failed by then, the grant is released.
type round struct {
	*attempt
	id    string
	hold  *lease.Group
	votes chan vote
	until time.Time // the round waits for nodes until then

	answered []bool         // by node
	left     int            // votes that are still to come
	ours     int            // nodes that granted the lock
	tokens   map[int]int64  // fencing tokens of these, by node
	others   []vote         // of nodes where others hold the lock
	failed   []vote         // all other votes
	servers  map[string]int // nodes by the run IDs of their servers
}

// try makes one round. Each node gets a value that no other round uses: a
// released value is never requested again.
func (a *attempt) try(ctx context.Context) (*lease.Hold, error) {
	l := a.lock
	a.call.Rest = 0
	id, err := utils.NewID()
	if err != nil {
		return nil, err
	}
	n := len(l.nodes)
	r := &round{
		attempt: a, id: id, votes: make(chan vote, n), answered: make([]bool, n),
		left: n, servers: map[string]int{}, tokens: map[int]int64{},
	}
	r.hold = lease.NewGroup(l.Manager, l.Key, nil, l.need, &l.whole, l.named)
	start := time.Now()
	r.until = start.Add(l.patience())
	for node := range l.nodes {
		r.start(node)
	}
	err = r.count(ctx)
	a.last = r
	r.hold.NotifyWaiters(err == nil || errors.Is(err, driver.ErrAbandoned))
	if err == nil && l.part.Fencing {
		err = r.raise(ctx)
	}
	if err != nil {
		r.hold.Abandon()
		if errors.Is(err, errs.ErrQuorum) {
			a.failed = r.failed
		}
		a.call.Rest = r.rest(err)
		return nil, err
	}
	return r.hold.Grant(a.call.Caller, start, &l.whole)
}

// count collects votes until the round is decided. It returns nil if a quorum
// granted the lock.
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

// shared reports whether a quorum has answered in an undecided round. Others
// then hold some of these nodes. While the call waits for the rest of the
// nodes, it keeps its own grants from those others.
func (r *round) shared() bool { return r.ours+len(r.others) >= r.lock.need }

// add counts a vote. Two clients of one server are an error.
func (r *round) add(v vote) error {
	r.left--
	r.answered[v.node] = true
	if v.server != "" {
		if other, taken := r.servers[v.server]; taken {
			return fmt.Errorf("%w: clients %d and %d: are of the same server",
				errs.ErrInvalid, min(v.node, other), max(v.node, other))
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

// raise makes the highest token that of the hold, and raises the counters of a
// quorum of nodes to it. A later hold shares a node with that quorum, so its
// token is higher. A node that grants the lock during raise may replace one
// that fails here.
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
		votes = nil // votes that are still to come were counted as failed
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
	return r.lock.tooFew(r.failed)
}

// raiseOne raises the counter of a node to the token of the hold. It sends
// nothing if the token of the node is no lower.
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
			r.answered[node] = true // it has not, but it counts only once
			r.failed = append(r.failed, vote{node: node, err: driver.ErrTimeout})
		}
	}
	r.left = 0
}

// verdict reports whether the round is decided, and returns why it failed.
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
	return true, r.lock.tooFew(r.failed)
}

// tooFew returns the error of a round in which too few nodes answered. It
// matches the error of each failed node. It matches permanent errors only if
// the nodes without one are no quorum.
func (l *Lock) tooFew(failed []vote) error {
	final := 0
	for _, v := range failed {
		if !v.passes() {
			final++
		}
	}
	var all []error
	for _, v := range failed {
		err := v.err
		if !v.passes() && len(l.nodes)-final >= l.need {
			err = errors.New(err.Error())
		}
		all = append(all, l.named(v.node, err))
	}
	return errs.WithCauses(errs.ErrQuorum, all)
}
