package etcdlock

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/holds"
)

// errClientClosed is why a Locker is closed if its client was closed.
var errClientClosed = fmt.Errorf("%w: the etcd client was closed", relock.ErrClosed)

// followClient closes the Locker with its client. Package clientv3 repeats a
// request over a closed connection until the request's own limit. Only then
// does it report that there was no answer.
func (l *Locker) followClient() {
	l.unfollow = context.AfterFunc(l.client.Ctx(), func() { l.tasks.Start(l.closeWithClient) })
}

// closeWithClient closes the Locker once the connection is shut down. A client
// whose own context was cancelled is not closed: releases still get through.
func (l *Locker) closeWithClient() {
	if conn := l.client.ActiveConnection(); conn != nil {
		for state := conn.GetState(); state != connectivity.Shutdown; state = conn.GetState() {
			if !conn.WaitForStateChange(l.life, state) {
				return
			}
		}
	}
	l.mu.Lock()
	var keys []string
	var last time.Time
	for s := range l.leases {
		for g := range s.grants {
			if g.session == s { // during a move it is in two
				keys = append(keys, g.name)
			}
		}
		if len(s.grants) > 0 && s.until.After(last) {
			last = s.until
		}
	}
	l.closeLocked(errClientClosed)
	l.mu.Unlock()
	holds.WarnOfHeld(l.logger, keys, last)
}

// closeLocked ends calls and holds. It sends nothing.
func (l *Locker) closeLocked(why error) {
	l.end(why) // before the sessions, so that waiters find the Locker closed, not their place lost
	for s := range l.leases {
		s.loseLocked(why)
	}
}
