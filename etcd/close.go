package etcdlock

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/holds"
)

// Close ends waits and holds with [relock.ErrClosed], and revokes the leases,
// and with them all locks. It waits for the server at most a second, or four
// times as long as answers took, if that is more. If the server does not
// answer, the error matches [relock.ErrUnconfirmed], and the locks are free
// when the leases have ended. A second Close does nothing, but waits for the
// first. A client that is closed closes its Lockers, but releases nothing:
// close them first. A hook of an observer, or a log handler, must not call it:
// Close waits for those too.
func (l *Locker) Close() error {
	if l == nil || l.server == nil {
		return wrap("close", "", errNotMade)
	}
	var err error
	l.closing.Do(func() { err = l.close() })
	return wrap("close", "", err)
}

func (l *Locker) close() error {
	l.unfollow()
	l.sessions.mu.Lock()
	leases := l.sessions.closeLocked(relock.ErrClosed)
	l.sessions.mu.Unlock()
	l.tasks.Wait()
	return l.revokeAll(leases)
}

// closeWithClient closes the Locker once the connection is shut down. Package
// clientv3 repeats a request over a closed connection until the request's own
// limit. Only then does it report that there was no answer. A client whose own
// context was cancelled is not closed: releases still get through.
func (l *Locker) closeWithClient() {
	if conn := l.client.ActiveConnection(); conn != nil {
		for state := conn.GetState(); state != connectivity.Shutdown; state = conn.GetState() {
			if !conn.WaitForStateChange(l.life, state) {
				return
			}
		}
	}
	l.sessions.mu.Lock()
	keys := slices.Collect(maps.Keys(l.holders.held))
	var last time.Time
	for s := range l.sessions.leases {
		if len(s.grants) > 0 && s.until.After(last) {
			last = s.until
		}
	}
	l.sessions.closeLocked(errClientClosed)
	l.sessions.mu.Unlock()
	holds.WarnOfHeld(l.logger, keys, last)
}
