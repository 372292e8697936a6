package etcdlock

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
)

// unfair takes the one key that all calls use, as soon as it is free.
func (w *wait) unfair(c *claim) (*level, error) {
	r := c.unfairRequest()
	for {
		resp, err := c.ask(r)
		if err != nil {
			return nil, err
		}
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
}

// unfairRequest returns the request for the key. One read is enough, because
// the key is the first of its folder.
func (c *claim) unfairRequest() request {
	return request{
		unless:    []clientv3.Cmp{absent(c.key).WithPrefix(), absent(c.wait.locker.cancelKey(c.hold))},
		then:      []clientv3.Op{c.put()},
		otherwise: []clientv3.Op{clientv3.OpGet(c.key, clientv3.WithPrefix(), clientv3.WithLimit(1))},
	}
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
