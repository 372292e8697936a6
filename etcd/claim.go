package etcdlock

import (
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

// claim is the request of one call for a lock, under one session. It asks for a
// hold with a unique name, which is made at most once. The request may be sent
// again, and may arrive late. Once the claim is abandoned, it leaves nothing
// behind.
type claim struct {
	place
	locker        *Locker
	wait          *wait
	session       *session
	entry         *entry // of a waiting fair call; else nil
	rev           int64  // create revision of the key; 0 until the key is known to exist
	indeterminate bool   // a request for the key was never answered, and may arrive late
	perhaps       bool   // a failed request may have made the key
	unread        bool   // a request was refused, and what is there was not read
	left          bool   // the caller has left, and the request under way cleans up
}

// newClaim returns a claim that is one of the users of s.
func newClaim(l *Locker, w *wait, s *session, e *entry) *claim {
	hold := l.nextHold()
	c := &claim{locker: l, wait: w, session: s, entry: e}
	c.place = place{name: w.name, key: l.folder(w.name), hold: hold, value: l.value(hold)}
	if l.config.fair {
		c.slot = l.slots.take(w.name)
		c.key = l.slotKey(c.slot)
	}
	return c
}

// request is a Txn that makes the key.
type request struct {
	unless          []clientv3.Cmp // each requires that a key is absent
	then, otherwise []clientv3.Op  // otherwise begins with a read of the key, or is empty
}

// aloneRequest returns the request for a lock that nobody else wants. It does
// not read why it is refused.
func (c *claim) aloneRequest() request {
	l := c.locker
	return request{
		unless: []clientv3.Cmp{absent(l.folder(c.name)).WithPrefix(), absent(l.cancelKey(c.hold))},
		then:   []clientv3.Op{c.put()},
	}
}

// readFirst reads what is in the folder. One read is enough, because the unfair
// key is the first of its folder.
func (c *claim) readFirst() clientv3.Op {
	return clientv3.OpGet(c.locker.folder(c.name), clientv3.WithPrefix(), clientv3.WithLimit(1))
}

// refusal returns why a request has made no key, by the first key of the
// folder.
func (c *claim) refusal(first *mvccpb.KeyValue) error {
	l := c.locker
	switch {
	case first == nil:
	case holdOf(first.Value) == "":
		return errForeign
	case string(first.Key) != l.folder(c.name) && !l.config.fair:
		return errIsFair
	case string(first.Key) == l.folder(c.name) && l.config.fair:
		return errIsUnfair
	}
	return relock.ErrLockAcquiredByOthers
}

// absent returns the comparison that is true if there is no such key.
func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }

// put returns the operation that makes the key under the session's lease.
func (c *claim) put() clientv3.Op {
	return clientv3.OpPut(c.key, c.value, clientv3.WithLease(c.session.id))
}

// ask sends the request until it is answered, or has failed for good. A call
// that does not wait makes one attempt.
func (c *claim) ask(r request) (*clientv3.TxnResponse, error) {
	for {
		resp, err := c.send(r)
		switch {
		case err == nil:
			c.wait.outage.answered()
			return resp, nil
		case err == errLeft: //nolint:errorlint // our own
			return nil, err
		case isNoLease(err):
			c.session.lose(errs.Vanished)
			return nil, errSession
		}
		err = c.locker.explainOf(c.name, err)
		c.wait.note(err)
		if !c.wait.block || !relock.IsRetryableErr(err) || !c.wait.pause(err) {
			return nil, err
		}
		if c.session.check() != nil {
			return nil, errSession
		}
	}
}

// send sends the request once, on a separate goroutine. So a caller that leaves
// does not cut the request. If the caller has left, the goroutine cleans up
// according to the answer.
func (c *claim) send(r request) (*clientv3.TxnResponse, error) {
	l := c.locker
	var decided atomic.Bool // by the answer, or by the caller who leaves
	var resp *clientv3.TxnResponse
	var err error
	done := make(chan struct{})
	ok := l.tasks.Start(func() {
		defer close(done)
		resp, err = c.commit(r)
		if !decided.CompareAndSwap(false, true) {
			c.resolve(resp, err)
			c.remove()
		}
	})
	if !ok {
		return nil, l.closed()
	}
	if !c.wait.outage.await(c.wait.ctx, done) {
		if decided.CompareAndSwap(false, true) {
			c.left = true
			return nil, errLeft
		}
		<-done
	}
	c.resolve(resp, err)
	return resp, err
}

func (c *claim) commit(r request) (*clientv3.TxnResponse, error) {
	l := c.locker
	limit, sent := l.limit(), time.Now()
	ctx, cancel := l.detached(c.wait.ctx, limit)
	defer cancel()
	resp, err := l.client.Txn(ctx).If(r.unless...).Then(r.then...).Else(r.otherwise...).Commit()
	l.pace.note(sent, limit, err)
	return resp, err
}

// resolve notes what an answer, or a missing one, says about the key. An answer
// that refuses begins with a read of the key, if it has any. The read finds the
// key if an earlier copy of the request has made it.
func (c *claim) resolve(resp *clientv3.TxnResponse, err error) {
	c.indeterminate, c.perhaps = c.indeterminate || unanswered(err), c.perhaps || perhapsExecuted(err)
	switch {
	case err != nil:
	case resp.Succeeded:
		c.rev = resp.Header.Revision
	case len(resp.Responses) == 0:
		c.unread = true
	default:
		c.unread = false
		if read := found(resp, 0); read != nil && holdOf(read.Value) == c.hold {
			c.rev = read.CreateRevision
		}
	}
}

// begin makes a granted claim the caller's hold.
func (c *claim) begin() (*level, error) {
	w, all := c.wait, c.locker.holders
	all.mu.Lock()
	defer all.mu.Unlock()
	if err := c.session.checkLocked(); err != nil {
		return nil, errSession
	}
	g := &grant{
		holders: all, place: c.place, rev: c.rev, mod: c.rev, began: time.Now(), indeterminate: c.indeterminate,
		origin: c.session, session: c.session, owner: w.owner, moving: newTurn(),
	}
	c.session.grants[g] = struct{}{}
	all.held[g.name] = g
	c.session.users-- // from now on the session counts it as a grant
	if w.owner != nil {
		w.owner.grant = g
		w.owner.users++
	}
	return g.pushLocked(w.ctx), nil
}

// remove deletes, in the background, what the claim has left or may leave.
func (c *claim) remove() {
	all := c.locker.sessions
	all.mu.Lock()
	defer all.mu.Unlock()
	defer c.session.leaveLocked()
	if c.rev == 0 && !c.perhaps && !c.unread {
		c.slot.leave(true)
		c.entry.leave()
		return
	}
	r := all.newRemovalLocked(c.place, c.session, c.session)
	r.entry, r.owned = c.entry, c.byValue()
	if c.indeterminate {
		r.cancel = all.cancelKey(c.hold)
	}
	r.clean()
}

// clear removes a key of the claim's slot that belongs to no claim. A copy of
// an older request has made it, and nobody knew that the copy was under way.
// The call goes on with another slot.
func (c *claim) clear(rev int64) error {
	all := c.locker.sessions
	all.mu.Lock()
	defer all.mu.Unlock()
	c.slot.leave(false)
	r := all.newRemovalLocked(c.place, c.session, c.session)
	r.slot, r.owned = nil, c.byRevision(rev)
	r.clean()
	return errLateCopy
}
