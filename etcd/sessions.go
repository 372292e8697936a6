package etcdlock

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/suspend"
)

// sessions has the sessions of one Locker, and the mutex that guards them and
// the holds under them.
type sessions struct {
	*server

	// mu guards the fields below, and the guarded fields of each session,
	// grant, level and owner. It is never held while a request is sent.
	mu      sync.Mutex
	leases  map[*session]struct{} // those that were not revoked yet
	current *session              // of the last claim; nil before the first
	monitor *suspend.Monitor
	forgets int // how many old keys one request deletes
}

// grantLease requests a lease of ttl, rounded up to whole seconds.
func (all *sessions) grantLease(ctx context.Context, ttl time.Duration, private bool) (*session, error) {
	limit := all.limit()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all.mu.Lock()
	all.checkSuspendLocked() // a suspend before the request does not count
	all.mu.Unlock()
	sent := time.Now()
	resp, err := all.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	all.pace.note(sent, limit, err)
	switch {
	case err != nil && all.life.Err() != nil:
		return nil, all.closed()
	case err != nil:
		return nil, all.explain(err) // if a lease was granted, it has no keys and expires
	}
	s, err := all.adopt(resp.ID, sent, time.Duration(resp.TTL)*time.Second, private)
	if err != nil {
		all.sendBack(resp.ID)
	}
	return s, err
}

// adopt registers a lease that was granted for ttl, by a request that was sent
// at sent. It fails if the Locker was closed. It also fails if the validity
// ended before it began.
func (all *sessions) adopt(id clientv3.LeaseID, sent time.Time, ttl time.Duration, private bool) (*session, error) {
	s := &session{
		sessions: all, id: id, ttl: ttl, period: ttl / 3, closing: private, renewing: newTurn(),
		until: sent.Add(ttl - drift(ttl)), renewed: sent, grants: map[*grant]struct{}{},
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.life.Err() != nil {
		return nil, all.closed()
	}
	all.checkSuspendLocked()
	if time.Until(s.until) <= 0 || all.monitor.Since(sent) {
		return nil, errLate
	}
	s.ctx, s.end = context.WithCancelCause(all.life)
	s.timer = time.AfterFunc(time.Until(s.until), s.expire)
	all.leases[s] = struct{}{}
	all.monitor.Start(all.life, &all.tasks)
	return s, nil
}

// checkSuspendLocked marks all leases lost if the machine was suspended. The
// clock that validity is measured by has missed that time. All leases are
// marked before the mutex is unlocked, so that nobody finds one valid
// afterwards.
func (all *sessions) checkSuspendLocked() { all.follow(all.monitor.Check(time.Now())) }

// follow runs what follows a suspend, on its own goroutine: the mutex is held.
func (all *sessions) follow(follow func()) {
	if follow != nil {
		all.tasks.Start(follow)
	}
}

// suspendedLocked marks all leases lost. What follows, each lease has started.
func (all *sessions) suspendedLocked() (follow func()) {
	for s := range all.leases {
		if s.over == nil {
			follow = func() {}
		}
		s.loseLocked(errs.Suspended)
	}
	return follow
}

// monitorSuspend checks for a suspend at intervals. So a hold also ends if
// nobody asks about it.
func (all *sessions) monitorSuspend() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.follow(all.monitor.CheckNow())
}

// maxKeys is how many keys a lease may have before new claims use another one.
// A server that authenticates users checks the rights to all keys of a lease
// for each key that is put under it, one request after another. 128 keys double
// the 0.2 ms of a Put, and 1,024 keys make it five times as long.
const maxKeys = 128

// roomyLocked returns a session with room for one more claim, or nil. It
// returns the same one until that is full, so the others become empty in time.
func (all *sessions) roomyLocked() *session {
	if s := all.current; s != nil && s.hasRoomLocked() {
		return s
	}
	var most *session
	for s := range all.leases {
		if s.hasRoomLocked() && (most == nil || s.keysLocked() < most.keysLocked()) {
			most = s
		}
	}
	if most != nil {
		all.current = most
	}
	return most
}

// closeLocked ends calls and holds. It sends nothing, and returns the leases.
func (all *sessions) closeLocked(why error) (leases []clientv3.LeaseID) {
	all.end(why) // before the sessions, so that waiters find the Locker closed, not their place lost
	for s := range all.leases {
		leases = append(leases, s.id)
		s.loseLocked(why)
	}
	return leases
}

// revoke revokes a lease that has ended here, so that nobody must wait for its
// end at the server. It tries until that end has come.
func (all *sessions) revoke(s *session) {
	var p pauses
	for end := time.Now().Add(s.ttl); all.life.Err() == nil; sleep(all.life, p.next()) {
		err := all.revokeOnce(all.life, s.id, all.limit())
		if err == nil || time.Now().After(end) {
			all.mu.Lock()
			delete(all.leases, s)
			all.mu.Unlock()
			return
		}
		all.logger.Debug("relock: lease not revoked", "reason", err.Error())
	}
}
