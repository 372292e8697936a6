package etcdlock

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// cancelled is a key that prevents late copies of a request from making a hold.
type cancelled struct {
	key string
	at  time.Time
}

const (
	// cancelStay is how long such a key stays. By the defaults of Linux, TCP
	// gives up on unacknowledged data after about a quarter of an hour.
	cancelStay = 20 * time.Minute

	// forgetAtOnce is how many such keys one request deletes. By default etcd
	// allows 128 operations a transaction.
	forgetAtOnce = 100
)

// noteCancelled registers such a key. A lease that they have filled takes no
// more claims: the server may be overloaded, and each renewal lists all keys.
// The lease is revoked after its last hold and claim, which deletes the keys.
func (s *session) noteCancelled(key string) {
	s.locker.mu.Lock()
	defer s.locker.mu.Unlock()
	s.cancelled = append(s.cancelled, cancelled{key, time.Now()})
	if s.keysLocked() >= maxKeys {
		s.closing = true
		s.retireLocked()
	}
}

// forgetCancelled deletes keys that have stayed long enough. It sends only one
// request, because the next renewal waits for it. The other keys are deleted
// after a later renewal, or with the lease.
func (s *session) forgetCancelled() {
	deletes := s.stale()
	if len(deletes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.renewLimit())
	defer cancel()
	_, err := s.locker.client.Do(ctx, clientv3.OpTxn(nil, deletes, nil))
	if err != nil {
		s.locker.logger.Debug("relock: old keys not deleted", "keys", len(deletes), "reason", s.locker.explain(err).Error())
	}
	s.locker.mu.Lock()
	defer s.locker.mu.Unlock()
	switch {
	case err == nil:
		s.cancelled = s.cancelled[len(deletes):]
	case isTooLarge(err):
		s.locker.forgets = max(1, len(deletes)/2)
	}
}

// stale returns the deletions of the oldest keys that have stayed long enough.
func (s *session) stale() (deletes []clientv3.Op) {
	s.locker.mu.Lock()
	defer s.locker.mu.Unlock()
	for _, c := range s.cancelled[:min(len(s.cancelled), s.locker.forgets)] {
		if time.Since(c.at) < cancelStay {
			break
		}
		deletes = append(deletes, clientv3.OpDelete(c.key))
	}
	return deletes
}
