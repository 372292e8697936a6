package etcdlock

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
)

// position is where the claim of a waiting fair call is in the queue of its
// lock.
type position struct {
	*claim
	older string // the key before the claim's; "" if the claim is the first
	at    int64  // the revision at which that was true
}

// enter makes the claim's key. A lock that nobody wanted the last time gets the
// shortest request first.
func (p *position) enter() error {
	crowded := p.locker.crowded.of(p.name)
	if !crowded.Load() {
		resp, err := p.ask(p.aloneRequest())
		switch {
		case err != nil:
			return err
		case resp.Succeeded:
			return p.set(nil, resp.Header.Revision)
		}
	}
	err := p.join()
	crowded.Store(p.older != "")
	return err
}

// join makes the key although there may be others.
func (p *position) join() error {
	folder := p.locker.folder(p.name)
	r := p.joinRequest(folder)
	resp, err := p.ask(r)
	if err == nil && !resp.Succeeded {
		// This is rare, so only a second request reads why.
		r.otherwise = []clientv3.Op{clientv3.OpGet(p.key), clientv3.OpGet(folder)}
		resp, err = p.ask(r)
	}
	switch {
	case err != nil:
		return err
	case resp.Succeeded:
		return p.set(found(resp, 0), resp.Header.Revision)
	case p.rev != 0: // an earlier copy of the request has made it
		return p.find()
	case found(resp, 0) != nil:
		return p.clear(found(resp, 0).CreateRevision)
	}
	// The unfair key is there: a claim that is not abandoned has no cancel key.
	return p.refusal(found(resp, 1))
}

// joinRequest returns the request for a place in the queue. The read comes
// before the put, so that it finds the key before the claim's.
func (p *position) joinRequest(folder string) request {
	return request{
		unless: []clientv3.Cmp{absent(p.key), absent(folder), absent(p.locker.cancelKey(p.hold))},
		then:   []clientv3.Op{clientv3.OpGet(folder, newest()...), p.put()},
	}
}

// newest returns the options of a read of the key of a folder that was made
// last.
func newest() []clientv3.OpOption {
	return []clientv3.OpOption{
		clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1),
	}
}

// set notes which key a read has found before the claim's, or that it has found
// none. A key of another program is an error, because waiting for it would be
// in vain.
func (p *position) set(older *mvccpb.KeyValue, at int64) error {
	p.older, p.at = "", at
	switch {
	case older == nil:
		return nil
	case holdOf(older.Value) == "":
		return errForeign
	}
	p.older = string(older.Key)
	return nil
}

// find is the first read for a claim whose key exists, although no answer said
// which key was before it.
func (p *position) find() error {
	ctx, leave := both(p.wait.ctx, p.session.ctx)
	defer leave()
	return p.afterQueueing(p.poll(ctx, p.rev))
}

// advance waits until no key is older than the claim's.
func (p *position) advance() error {
	ctx, leave := both(p.wait.ctx, p.session.ctx)
	defer leave()
	ws := p.locker.streams.newWatches()
	defer ws.close()
	for p.older != "" {
		watched := p.older
		ws.add(watched, 0)
		ws.add(p.key, p.at+1)
		rev, err := p.wait.await(ctx, ws, p.at)
		if err == nil {
			err = p.poll(ctx, max(rev, p.rev))
		}
		if err = p.afterQueueing(err); err != nil {
			return err
		}
		if p.older != watched {
			ws.drop(watched)
		}
	}
	return nil
}

// afterQueueing returns what an error means for a claim that is in the queue.
func (p *position) afterQueueing(err error) error {
	switch {
	case err == nil:
		return nil
	case p.wait.ctx.Err() != nil:
		return errLeft
	case p.session.check() != nil:
		return ErrPlaceLost
	}
	return err
}

// poll reads which key is before the claim's, at the revision least or later.
// It repeats the read until it is answered. Any member may answer, even one
// that lags behind. Keys older than the claim's can only become fewer. So if
// there is none at any revision that has the claim's key, there is none ever
// after.
func (p *position) poll(ctx context.Context, least int64) error {
	for {
		err := p.pollOnce(ctx, least)
		if err == nil {
			p.wait.outage.answered()
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrPlaceLost) || !relock.IsRetryableErr(err) {
			return err
		}
		p.wait.note(err)
		p.wait.outage.failed(err)
		if !sleep(ctx, p.wait.pauses.next()) {
			return errLeft
		}
	}
}

func (p *position) pollOnce(ctx context.Context, least int64) error {
	l := p.locker
	ctx, cancel := context.WithTimeout(ctx, l.limit())
	defer cancel()
	before := append(newest(), clientv3.WithMaxCreateRev(p.rev-1), clientv3.WithSerializable())
	resp, err := l.client.Txn(ctx).Then(
		clientv3.OpGet(p.key, clientv3.WithKeysOnly(), clientv3.WithSerializable()),
		clientv3.OpGet(l.folder(p.name), before...),
	).Commit()
	switch {
	case err != nil:
		return l.explainOf(p.name, err)
	case resp.Header.Revision < least:
		return errBehind
	}
	if own := found(resp, 0); own == nil || own.CreateRevision != p.rev {
		return ErrPlaceLost
	}
	return p.set(found(resp, 1), resp.Header.Revision)
}
