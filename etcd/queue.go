package etcdlock

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
)

// newest returns the options of a read of the n keys of a folder that were made
// last.
func newest(n int64) []clientv3.OpOption {
	return []clientv3.OpOption{
		clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(n),
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
	before := append(newest(1), clientv3.WithMaxCreateRev(c.rev-1), clientv3.WithSerializable())
	resp, err := l.client.Txn(ctx).Then(
		clientv3.OpGet(c.key, clientv3.WithKeysOnly(), clientv3.WithSerializable()),
		clientv3.OpGet(l.folder(c.wait.name), before...),
	).Commit()
	if err != nil {
		return "", 0, l.explainOf(c.wait.name, err)
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
