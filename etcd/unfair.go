package etcdlock

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
)

// unfair takes the one key that all calls use, as soon as it is free.
func (c *claim) unfair() (*level, error) {
	w := c.wait
	r := c.aloneRequest()
	resp, err := c.askFirst(&r)
	for ; err == nil; resp, err = c.ask(r) {
		if c.rev != 0 { // made by this copy of the request, or an earlier one
			return c.begin()
		}
		if why := c.refusal(found(resp, 0)); !w.block || why != relock.ErrLockAcquiredByOthers { //nolint:errorlint // our own
			return nil, why
		}
		w.note(relock.ErrLockAcquiredByOthers)
		w.line.watches.add(c.key, 0)
		if _, err := w.await(w.ctx, w.line.watches, resp.Header.Revision); err != nil {
			return nil, err
		}
		if c.session.check() != nil {
			return nil, errSession
		}
	}
	return nil, err
}

// askFirst sends the first request of an unfair claim. A second one reads why
// the first was refused, and so does each one after that.
func (c *claim) askFirst(r *request) (*clientv3.TxnResponse, error) {
	crowded := c.locker.crowded.of(c.wait.name)
	reads := crowded.Load()
	if reads {
		r.otherwise = []clientv3.Op{c.readFirst()}
	}
	resp, err := c.ask(*r)
	if err != nil {
		return nil, err
	}
	crowded.Store(!resp.Succeeded)
	if resp.Succeeded || reads {
		return resp, nil
	}
	r.otherwise = []clientv3.Op{c.readFirst()}
	return c.ask(*r)
}
