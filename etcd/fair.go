package etcdlock

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
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

// enqueue makes the key. It returns the key before it, or "" if it is the
// first. It also returns the revision at which that was true.
func (c *claim) enqueue() (older string, at int64, err error) {
	crowded := c.wait.locker.crowded.of(c.name)
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
	folder := c.wait.locker.folder(c.name)
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
		then:   []clientv3.Op{clientv3.OpGet(folder, newest()...), c.put()},
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
	r := all.newRemovalLocked(c.place, c.session, c.session)
	r.slot, r.owned = nil, c.byRevision(rev)
	r.clean()
	return errLateCopy
}

// newest returns the options of a read of the key of a folder that was made
// last.
func newest() []clientv3.OpOption {
	return []clientv3.OpOption{
		clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1),
	}
}

// olderOf returns the key before a claim's own, given the keys that were read
// there. It returns "" if there is none. A key of another program is an error,
// because waiting for it would be in vain.
func olderOf(keys []*mvccpb.KeyValue) (string, error) {
	switch {
	case len(keys) == 0:
		return "", nil
	case holdOf(keys[0].Value) == "":
		return "", errForeign
	}
	return string(keys[0].Key), nil
}

// find is the first read for a claim whose key exists, although no answer said
// which key was before it.
func (c *claim) find() (older string, at int64, err error) {
	ctx, leave := both(c.wait.ctx, c.session.ctx)
	defer leave()
	older, at, err = c.poll(ctx, c.rev)
	return older, at, c.afterQueueing(err)
}

// queue waits until no key is older than the claim's.
func (c *claim) queue(older string, at int64) error {
	ctx, leave := both(c.wait.ctx, c.session.ctx)
	defer leave()
	ws := c.wait.locker.streams.newWatches()
	defer ws.close()
	for older != "" {
		ws.add(older, 0)
		ws.add(c.key, at+1)
		next := older
		rev, err := c.wait.await(ctx, ws, at)
		if err == nil {
			next, at, err = c.poll(ctx, max(rev, c.rev))
		}
		if err = c.afterQueueing(err); err != nil {
			return err
		}
		if next != older {
			ws.drop(older)
		}
		older = next
	}
	return nil
}

// afterQueueing returns what an error means for a claim that is in the queue.
func (c *claim) afterQueueing(err error) error {
	switch {
	case err == nil:
		return nil
	case c.wait.ctx.Err() != nil:
		return errLeft
	case c.session.check() != nil:
		return ErrPlaceLost
	}
	return err
}

// poll reads which key is before the claim's, at the revision least or later.
// It repeats the read until it is answered. Any member may answer, even one
// that lags behind. Keys older than the claim's can only become fewer. So if
// there is none at any revision that has the claim's key, there is none ever
// after.
func (c *claim) poll(ctx context.Context, least int64) (older string, at int64, err error) {
	for {
		older, at, err = c.pollOnce(ctx, least)
		if err == nil {
			c.wait.outage.answered()
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrPlaceLost) || !relock.IsRetryableErr(err) {
			return older, at, err
		}
		c.wait.note(err)
		c.wait.outage.failed(err)
		if !sleep(ctx, c.wait.pauses.next()) {
			return "", 0, errLeft
		}
	}
}

func (c *claim) pollOnce(ctx context.Context, least int64) (older string, at int64, err error) {
	l := c.wait.locker
	ctx, cancel := context.WithTimeout(ctx, l.limit())
	defer cancel()
	before := append(newest(), clientv3.WithMaxCreateRev(c.rev-1), clientv3.WithSerializable())
	resp, err := l.client.Txn(ctx).Then(
		clientv3.OpGet(c.key, clientv3.WithKeysOnly(), clientv3.WithSerializable()),
		clientv3.OpGet(l.folder(c.name), before...),
	).Commit()
	if err != nil {
		return "", 0, l.explainOf(c.name, err)
	}
	at = resp.Header.Revision
	if at < least {
		return "", 0, errBehind
	}
	own := resp.Responses[0].GetResponseRange().Kvs
	if len(own) == 0 || own[0].CreateRevision != c.rev {
		return "", 0, ErrPlaceLost
	}
	older, err = olderOf(resp.Responses[1].GetResponseRange().Kvs)
	return older, at, err
}
