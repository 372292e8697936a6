package etcdlock

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock/internal/errs"
)

// lengthen makes the lease of a grant last for d. A lease of etcd keeps the
// length for which it was granted. If d is longer, the key is moved to a new
// lease.
func (g *grant) lengthen(ctx context.Context, d time.Duration) error {
	if !g.moving.take(ctx, g.holders.life) {
		return errLeft
	}
	defer g.moving.give()
	s, err := g.resolve(ctx)
	if err != nil {
		return err
	}
	if d <= s.ttl {
		return s.renew(ctx)
	}
	to, err := g.holders.grantLease(ctx, d, true)
	if err != nil {
		return err
	}
	to.period = s.period // as before, so that a deleted key is noticed as soon
	g.holders.tasks.Start(keeper{g.holders.sessions, to}.keep)
	return g.move(ctx, s, to)
}

// move attaches the key to another lease. The mod revision of the key changes.
// Its create revision, which is the token, does not.
func (g *grant) move(ctx context.Context, from, to *session) error {
	g.holders.mu.Lock()
	if g.over != nil || from.over != nil || to.over != nil {
		to.retireLocked()
		g.holders.mu.Unlock()
		return errSession
	}
	// Until it is known which lease has the key, both must be alive.
	g.also = to
	to.grants[g] = struct{}{}
	g.holders.mu.Unlock()
	mod, err := g.rewrite(ctx, to, g.mod)
	switch {
	case err == nil:
		g.resolved(to, from, mod)
	case !perhapsExecuted(err):
		g.resolved(from, to, g.mod)
	}
	return g.rewritten(err)
}

// rewrite attaches the key to the lease of to. It fails if the key was changed
// since the revision mod, except by an earlier copy of the same request.
func (g *grant) rewrite(ctx context.Context, to *session, mod int64) (now int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.holders.limit())
	defer cancel()
	resp, err := g.holders.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(g.key), "=", mod)).
		Then(clientv3.OpPut(g.key, g.value, clientv3.WithLease(to.id))).
		Else(clientv3.OpGet(g.key)).
		Commit()
	switch {
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return resp.Header.Revision, nil
	}
	if read := found(resp, 0); read != nil && read.CreateRevision == g.rev && clientv3.LeaseID(read.Lease) == to.id {
		return read.ModRevision, nil
	}
	return 0, errGone
}

// rewritten returns what the result of a rewrite means for the caller. If the
// key is gone, it ends the grant.
func (g *grant) rewritten(err error) error {
	switch {
	case errors.Is(err, errGone):
		g.lose(errs.Vanished)
		return errs.Vanished
	case isNoLease(err):
		return errSession
	}
	return g.holders.explainOf(g.name, err)
}

// resolved records which session has the key. The other one no longer has the
// grant.
func (g *grant) resolved(under, not *session, mod int64) {
	g.holders.mu.Lock()
	defer g.holders.mu.Unlock()
	g.mod = mod
	if g.over != nil {
		return // the call that ended it deletes the key, under either lease
	}
	g.session, g.also = under, nil
	delete(not.grants, g)
	not.retireLocked()
}

// resolve returns the session that has the key, also after an unanswered move.
// If the move was not executed, resolve prevents it from being executed later.
// It writes the key once more, so that a late copy does not find the mod
// revision that it names.
func (g *grant) resolve(ctx context.Context) (*session, error) {
	g.holders.mu.Lock()
	s, also := g.session, g.also
	g.holders.mu.Unlock()
	if also == nil {
		return s, nil
	}
	limited, cancel := context.WithTimeout(ctx, g.holders.limit())
	defer cancel()
	resp, err := g.holders.client.Get(limited, g.key)
	switch {
	case err != nil:
		return nil, g.holders.explainOf(g.name, err)
	case len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != g.rev:
		return nil, g.rewritten(errGone)
	}
	mod := resp.Kvs[0].ModRevision
	if clientv3.LeaseID(resp.Kvs[0].Lease) == also.id {
		g.resolved(also, s, mod)
		return also, nil
	}
	if mod, err = g.rewrite(ctx, s, mod); err != nil {
		if errors.Is(err, errGone) {
			return nil, errSession // the late copy was first; the next call finds it
		}
		return nil, g.rewritten(err)
	}
	g.resolved(s, also, mod)
	return s, nil
}
