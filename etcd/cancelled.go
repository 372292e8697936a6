package etcdlock

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// cancelled is a key that keeps late copies of a request out.
type cancelled struct {
	key string
	at  time.Time
}

const (
	// cancelStay is how long such a key stays: TCP gives up on data that nobody acknowledges after about a quarter of an
	// hour, by the defaults of Linux.
	cancelStay = 20 * time.Minute

	// maxCancelled is how many of them a lease may have before claims go under another one: an overloaded server is asked which
	// keys a lease has at each renewal. With the last hold and claim under it the lease is given back, and they go.
	maxCancelled = 256

	// forgetAtOnce is how many of them one request deletes; a transaction of etcd has 128 operations at most.
	forgetAtOnce = 100
)

func (s *session) noteCancelled(key string) {
	s.locker.mu.Lock()
	defer s.locker.mu.Unlock()
	s.cancelled = append(s.cancelled, cancelled{key, time.Now()})
	if len(s.cancelled) >= maxCancelled {
		s.closing = true
		s.retireLocked()
	}
}

// forgetCancelled deletes keys that have stayed for long enough, in one request, since the next renewal waits for it. The
// others have time: they go after a later renewal, or with the lease.
func (s *session) forgetCancelled() {
	deletes := s.stale()
	if len(deletes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.renewLimit())
	defer cancel()
	if _, err := s.locker.client.Do(ctx, clientv3.OpTxn(nil, deletes, nil)); err != nil {
		s.locker.logger.Debug("relock: old keys not deleted", "reason", err.Error())
		return
	}
	s.locker.mu.Lock()
	defer s.locker.mu.Unlock()
	s.cancelled = s.cancelled[len(deletes):]
}

// stale are the deletions of the oldest of the keys that have stayed for long enough.
func (s *session) stale() (deletes []clientv3.Op) {
	s.locker.mu.Lock()
	defer s.locker.mu.Unlock()
	for _, c := range s.cancelled[:min(len(s.cancelled), forgetAtOnce)] {
		if time.Since(c.at) < cancelStay {
			break
		}
		deletes = append(deletes, clientv3.OpDelete(c.key))
	}
	return deletes
}
