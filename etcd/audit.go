package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock/internal/errs"
)

// audit lists the keys that are attached to the lease. It marks a hold lost if
// its key was deleted. The list costs one request, however many holds there
// are.
func (s *session) audit(ctx context.Context) {
	held, remade := s.held()
	for _, g := range remade {
		g.lose(errs.Vanished)
	}
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.renewLimit())
	defer cancel()
	resp, err := s.locker.client.TimeToLive(ctx, s.id, clientv3.WithAttachedKeys())
	if err != nil {
		s.locker.logger.Debug("relock: keys of the lease unknown", "reason", s.locker.explain(err).Error())
		return
	}
	for _, key := range resp.Keys {
		delete(held, string(key))
	}
	for _, g := range held {
		s.confirmLoss(ctx, g)
	}
}

// held returns the grants whose keys should be attached to the lease, by key.
// It includes grants that were possibly moved: a move keeps the create
// revision, which finally decides whose key it is. If two grants have the same
// key, the older one has lost it. Its key was deleted, and made again for the
// newer one. The older grants are returned as remade.
func (s *session) held() (held map[string]*grant, remade []*grant) {
	s.locker.mu.Lock()
	defer s.locker.mu.Unlock()
	held = make(map[string]*grant, len(s.grants))
	for g := range s.grants {
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
func (s *session) confirmLoss(ctx context.Context, g *grant) {
	resp, err := s.locker.client.Get(ctx, g.key, clientv3.WithKeysOnly())
	if err != nil || (len(resp.Kvs) > 0 && resp.Kvs[0].CreateRevision == g.rev) {
		return
	}
	g.lose(errs.Vanished)
}
