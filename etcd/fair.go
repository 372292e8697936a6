package etcdlock

import (
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
)

// fair puts a key into the lock's folder. The oldest key, by create revision,
// is the hold. Each of the others waits for the one before it.
func (c *claim) fair() (*level, error) {
	if !c.wait.block {
		return c.tryFair()
	}
	p := position{claim: c}
	if err := p.enter(); err != nil {
		return nil, err
	}
	c.entry.leave()
	if p.older != "" {
		c.wait.note(relock.ErrLockAcquiredByOthers)
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	h, err := c.begin()
	if errors.Is(err, errSession) {
		err = ErrPlaceLost // the lease has ended since the last read, and the place with it
	}
	return h, err
}

// tryFair takes the lock if nobody holds it and nobody waits for it.
func (c *claim) tryFair() (*level, error) {
	r := c.aloneRequest()
	r.otherwise = []clientv3.Op{clientv3.OpGet(c.key), c.readFirst()}
	resp, err := c.ask(r)
	switch {
	case err != nil:
		return nil, err
	case c.rev != 0: // made by this copy of the request, or an earlier one
		return c.begin()
	}
	why := c.refusal(found(resp, 1))
	if own := found(resp, 0); own != nil && why == relock.ErrLockAcquiredByOthers { //nolint:errorlint // our own
		why = c.clear(own.CreateRevision)
	}
	return nil, why
}
