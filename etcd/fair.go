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
	older, at, err := c.enqueue()
	if err != nil {
		return nil, err
	}
	c.entry.leave()
	if older != "" {
		c.wait.note(relock.ErrLockAcquiredByOthers)
		if err := c.queue(older, at); err != nil {
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
	l := c.wait.locker
	folder := l.folder(c.wait.name)
	r := c.aloneRequest()
	r.otherwise = []clientv3.Op{clientv3.OpGet(c.key), clientv3.OpGet(folder, clientv3.WithPrefix(), clientv3.WithLimit(1))}
	resp, err := c.ask(r)
	switch {
	case err != nil:
		return nil, err
	case c.rev != 0: // made by this copy of the request, or an earlier one
		return c.begin()
	}
	switch first := found(resp, 1); {
	case first != nil && holdOf(first.Value) == "":
		return nil, errForeign
	case first != nil && string(first.Key) == folder:
		return nil, errIsUnfair
	case found(resp, 0) != nil:
		return nil, c.clear(found(resp, 0).CreateRevision)
	}
	return nil, relock.ErrLockAcquiredByOthers
}

// enqueue makes the key. It returns the key before it, or "" if it is the
// first. It also returns the revision at which that was true.
func (c *claim) enqueue() (older string, at int64, err error) {
	crowded := c.wait.locker.crowded.of(c.wait.name)
	if !crowded.Load() {
		resp, err := c.ask(c.aloneRequest())
		switch {
		case err != nil:
			return "", 0, err
		case resp.Succeeded:
			return "", resp.Header.Revision, nil
		}
	}
	older, at, err = c.join()
	crowded.Store(older != "")
	return older, at, err
}

// join makes the key although there may be others.
func (c *claim) join() (older string, at int64, err error) {
	folder := c.wait.locker.folder(c.wait.name)
	r := c.joinRequest(folder)
	resp, err := c.ask(r)
	if err == nil && !resp.Succeeded {
		// This is rare, so only a second request reads why.
		r.otherwise = []clientv3.Op{clientv3.OpGet(c.key), clientv3.OpGet(folder)}
		resp, err = c.ask(r)
	}
	if err != nil {
		return "", 0, err
	}
	if resp.Succeeded {
		older, err = olderOf(resp.Responses[0].GetResponseRange().Kvs)
		return older, resp.Header.Revision, err
	}
	switch {
	case c.rev != 0: // an earlier copy of the request has made it
		return c.find()
	case found(resp, 0) != nil:
		return "", 0, c.clear(found(resp, 0).CreateRevision)
	}
	// The unfair key is there: a claim that is not abandoned has no cancel key.
	if unfair := found(resp, 1); unfair == nil || holdOf(unfair.Value) == "" {
		return "", 0, errForeign
	}
	return "", 0, errIsUnfair
}

// joinRequest returns the request for a place in the queue. The read comes
// before the put, so that it finds the key before the claim's.
func (c *claim) joinRequest(folder string) request {
	return request{
		unless: []clientv3.Cmp{absent(c.key), absent(folder), absent(c.wait.locker.cancelKey(c.hold))},
		then:   []clientv3.Op{clientv3.OpGet(folder, newest(1)...), c.put()},
	}
}

// clear removes a key of the claim's slot that belongs to no claim. A copy of
// an older request has made it, and nobody knew that the copy was under way.
// The call goes on with another slot.
func (c *claim) clear(rev int64) error {
	all := c.wait.locker.sessions
	all.mu.Lock()
	defer all.mu.Unlock()
	c.slot.leave(false)
	r := all.newRemovalLocked(c.wait.name, c.key, c.value, nil, c.session, c.session)
	r.owned = clientv3.Compare(clientv3.CreateRevision(c.key), "=", rev)
	r.clean()
	return errLateCopy
}
