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
		if resp.Succeeded {
			return c.begin()
		}
		switch err := c.unfairRefused(resp); {
		case err == nil:
			return c.begin()
		case !w.block || err != relock.ErrLockAcquiredByOthers: //nolint:errorlint // our own reason
			return nil, err
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
	crowded := c.wait.locker.crowded.of(c.wait.name)
	reads := crowded.Load()
	if reads {
		r.otherwise = c.readFirst()
	}
	resp, err := c.ask(*r)
	if err != nil {
		return nil, err
	}
	crowded.Store(!resp.Succeeded)
	if resp.Succeeded || reads {
		return resp, nil
	}
	r.otherwise = c.readFirst()
	return c.ask(*r)
}

// readFirst reads what is in the folder. One read is enough, because the unfair
// key is the first of its folder.
func (c *claim) readFirst() []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(c.key, clientv3.WithPrefix(), clientv3.WithLimit(1))}
}

// unfairRefused returns why the request has made no key. It returns nil if an
// earlier copy of the request has made it.
func (c *claim) unfairRefused(resp *clientv3.TxnResponse) error {
	read := found(resp, 0)
	switch {
	case c.rev != 0:
		return nil
	case read != nil && holdOf(read.Value) == "":
		return errForeign
	case read != nil && string(read.Key) != c.key:
		return errIsFair
	}
	return relock.ErrLockAcquiredByOthers
}
