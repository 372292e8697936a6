package etcdlock

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock/internal/errs"
)

// keeper keeps one session, on a goroutine that ends with it.
type keeper struct {
	*sessions
	session *session
}

// keep renews the lease once per period until the session ends.
func (k keeper) keep() {
	s := k.session
	pause := s.period
	defer k.hangUp()
	for sleep(s.ctx, pause) {
		sent := time.Now()
		if err := s.renew(s.ctx); err != nil {
			k.logger.Debug("relock: renewal failed", "reason", err.Error())
			pause = min(s.ttl/10, 500*time.Millisecond)
			continue
		}
		k.audit(s.ctx)
		k.reportOld()
		k.forgetCancelled()
		k.endIfSpare()
		pause = max(0, s.period-time.Since(sent))
	}
}

// hangUp closes the stream of a session that has ended. An Extend may still be
// using it, but leaves its turn when the session ends.
func (k keeper) hangUp() {
	k.session.renewing <- struct{}{}
	defer k.session.renewing.give()
	k.session.keepAlive.close()
}

// audit lists the keys that are attached to the lease. It marks a hold lost if
// its key was deleted. The list costs one request, however many holds there
// are.
func (k keeper) audit(ctx context.Context) {
	held, remade := k.held()
	for _, g := range remade {
		g.lose(errs.Vanished)
	}
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.session.renewLimit())
	defer cancel()
	resp, err := k.client.TimeToLive(ctx, k.session.id, clientv3.WithAttachedKeys())
	if err != nil {
		k.logger.Debug("relock: keys of the lease unknown", "reason", k.explain(err).Error())
		return
	}
	for _, key := range resp.Keys {
		delete(held, string(key))
	}
	for _, g := range held {
		k.confirmLoss(ctx, g)
	}
}

// held returns the grants whose keys should be attached to the lease, by key.
// It includes grants that were possibly moved: a move keeps the create
// revision, which finally decides whose key it is. If two grants have the same
// key, the older one has lost it. Its key was deleted, and made again for the
// newer one. The older grants are returned as remade.
func (k keeper) held() (held map[string]*grant, remade []*grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	held = make(map[string]*grant, len(k.session.grants))
	for g := range k.session.grants {
		other := held[g.key]
		if other != nil && other.rev > g.rev {
			g, other = other, g
		}
		if other != nil {
			remade = append(remade, other)
		}
		held[g.key] = g
	}
	return held, remade
}

// confirmLoss reads the key of a grant that was not in the list of the lease.
// If the key is gone, or was made again for another hold, the grant is lost.
func (k keeper) confirmLoss(ctx context.Context, g *grant) {
	resp, err := k.client.Get(ctx, g.key, clientv3.WithKeysOnly())
	if err != nil || (len(resp.Kvs) > 0 && resp.Kvs[0].CreateRevision == g.rev) {
		return
	}
	g.lose(errs.Vanished)
}

// oldAfter is after how many leases a hold is reported. It is renewed for ever
// if its Unlock was forgotten.
const oldAfter = 100

// reportOld logs, once for each, which holds are old by now.
func (k keeper) reportOld() {
	for _, g := range k.old() {
		k.logger.Warn("relock: lock held for very long, an Unlock may be missing",
			"key", g.name, "kind", kind, "held", time.Since(g.began).Round(time.Second))
	}
}

// old returns the grants that have become old.
func (k keeper) old() (all []*grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for g := range k.session.grants {
		if !g.old && time.Since(g.began) >= oldAfter*k.session.ttl {
			g.old = true
			all = append(all, g)
		}
	}
	return all
}

// forgetCancelled deletes keys that have stayed long enough. It sends only one
// request, because the next renewal waits for it. The other keys are deleted
// after a later renewal, or with the lease.
func (k keeper) forgetCancelled() {
	deletes := k.stale()
	if len(deletes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(k.session.ctx, k.session.renewLimit())
	defer cancel()
	_, err := k.client.Do(ctx, clientv3.OpTxn(nil, deletes, nil))
	if err != nil {
		k.logger.Debug("relock: old keys not deleted", "keys", len(deletes), "reason", k.explain(err).Error())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.session.cancelled = k.session.cancelled[len(deletes):]
	case isTooLarge(err):
		k.forgets = max(1, len(deletes)/2)
	}
}

// stale returns the deletions of the oldest keys that have stayed long enough.
func (k keeper) stale() (deletes []clientv3.Op) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.session.cancelled[:min(len(k.session.cancelled), k.forgets)] {
		if time.Since(c.at) < cancelStay {
			break
		}
		deletes = append(deletes, clientv3.OpDelete(c.key))
	}
	return deletes
}

// endIfSpare ends a session without grants and other users, if claims have
// another one. It is called after a renewal. So a Locker whose holds fill a
// session repeatedly does not need a new lease each time.
func (k keeper) endIfSpare() {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, other := k.session, k.current
	if other != s && other != nil && other.hasRoomLocked() && len(s.grants)+s.users == 0 {
		s.closing = true
		s.retireLocked()
	}
}
