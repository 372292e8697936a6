package etcdlock

import (
	"context"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/relock-go/relock/internal/holds"
)

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
	l.sessions.mu.Lock()
	var keys []string
	var last time.Time
	for s := range l.sessions.leases {
		for g := range s.grants {
			if g.session == s { // during a move it is in two
				keys = append(keys, g.name)
			}
		}
		if len(s.grants) > 0 && s.until.After(last) {
			last = s.until
		}
	}
	l.sessions.closeLocked(errClientClosed)
	l.sessions.mu.Unlock()
	holds.WarnOfHeld(l.logger, keys, last)
}
