package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/kinds/plain"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// vote is the answer of one node.
type vote struct {
	node   int
	server string // run ID of the server; "" if the answer has none
	err    error  // nil for a grant
	fence  int64  // token of a grant; 0 without fencing
	young  bool   // the server was started too recently to count

	kept time.Time // the end of a minimum hold; zero without one

	// Set if others hold the lock and the call waits.
	left     time.Duration // what is left of their lease
	holder   string        // hold ID, the same on all nodes; "" if it is not a RedLock's
	notifies bool          // a notification will come when the node is released
}

// start sends the request to a node in the background, so that Lock does not
// wait for the slowest node. It sends nothing to a node that has not answered
// an earlier round yet.
func (r *round) start(node int) {
	if !r.asking[node].CompareAndSwap(false, true) {
		r.votes <- vote{node: node, err: driver.ErrTimeout}
		return
	}
	started := r.lock.nodes[node].Tasks.Start(func() {
		v := r.ask(node)
		r.asking[node].Store(false)
		r.votes <- v
	})
	if !started {
		r.asking[node].Store(false)
		r.votes <- vote{node: node, err: errs.ErrClosed}
	}
}

// ask sends the request to a node. It goes on after its call has ended.
func (r *round) ask(node int) vote {
	l, c := r.lock, r.lock.nodes[node]
	value := c.Identity.Value(fmt.Sprintf("%s.%d", r.id, node), &l.part)
	p := protocol{plain.Protocol{RedisKey: c.RedisKey(l.Key), Value: value}, l.part.MinHold > 0, r.hold}
	c.CheckSuspended(time.Now())
	epoch := c.Queue.Epoch(p.RedisKey)
	o, d := r.request(node, p.RedisKey, value)
	v := r.read(node, o, epoch)
	if v.err == nil {
		v.err = r.hold.Add(r.call.Caller, node, c,
			&lease.Grant{Key: l.Key, Protocol: p, Sent: o.Sent, Settings: &l.part, Indeterminate: d})
		return v
	}
	if d.Exists() {
		c.Retrier.Retry(acquire.Cleanup(l.Key, p.alone(), &l.part, d)) // which notifies nobody
	}
	return v
}

// request requests the lock from a node. If others hold it, the node adds the
// waiter to its list. If the client may not name the list, request names only
// the lock.
func (r *round) request(node int, redisKey, value string) (driver.Result, script.Indeterminate) {
	l, c := r.lock, r.lock.nodes[node]
	limit := driver.Limits{Connect: driver.MinConnect, Answer: l.part.Lease / 3}
	ask := func(by *script.Script, wait string) (driver.Result, script.Indeterminate) {
		args := []any{value, l.part.Expiry().Milliseconds(), l.leastUp(), wait, l.part.Period().Milliseconds()}
		return c.Eval(context.Background(), limit, script.Call{Script: l.part.Variant(by), Key: redisKey, Args: args})
	}
	var before script.Indeterminate
	if name := r.waits.name(node); name != "" {
		o, d := ask(script.RedLockWait, name)
		r.waits.note(node, o, d)
		if !driver.AreKeysRefused(o.Err) {
			return o, d
		}
		before = d
	}
	o, d := ask(script.RedLockAcquire, "")
	return o, before.Merge(d)
}

// read reads the answer of a node. epoch is that of the client's subscription
// when the request was sent.
func (r *round) read(node int, o driver.Result, epoch waitqueue.Epoch) vote {
	v := vote{node: node, err: o.Err}
	if o.Err != nil {
		return v
	}
	values, err := driver.Values(o.Reply, nil)
	if err != nil || len(values) < 2 {
		v.err = r.lock.Settings.KeyConflict(nil)
		return v
	}
	code, _ := driver.Int64(values[0], nil)
	v.server, _ = driver.String(values[1], nil)
	if code == script.RecentlyStarted && len(values) == 3 {
		up, _ := driver.Int64(values[2], nil)
		v.young, v.err = true, r.lock.errYoung(up)
		return v
	}
	v.err, v.kept = acquire.ReasonOf(code, o.Reply, &r.lock.Settings), script.KeptUntil(o.Reply, 2)
	if code == script.OK && len(values) == 3 {
		v.fence, _ = driver.Int64(values[2], nil)
	}
	if len(values) == 5 {
		left, _ := driver.Int64(values[2], nil)
		receivers, _ := driver.Int64(values[3], nil) // below -1 if the node has no list for the waiter
		v.holder, _ = driver.String(values[4], nil)
		v.left = time.Duration(left) * time.Millisecond
		v.notifies = receivers >= -1 && r.listens(node, o.Sent, receivers, epoch)
	}
	return v
}

// listens reports whether a notification of the node would reach the call. It
// notes how many receivers the heartbeat of the request had.
func (r *round) listens(node int, sent time.Time, receivers int64, epoch waitqueue.Epoch) bool {
	c := r.lock.nodes[node]
	key := c.RedisKey(r.lock.Key)
	c.Queue.Heartbeat(key, sent, receivers)
	return c.Queue.Reached(key) && receivers > 0 && c.Queue.Epoch(key) == epoch
}

// passes reports whether the node may grant the lock later.
func (v vote) passes() bool { return v.young || lockspec.IsRetryable(v.err) }
