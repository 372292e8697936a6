package relocktest

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// errDown is what a call gets whose server cannot be reached.
var errDown error = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("relocktest: the server is down")}

// Down makes all calls fail as if the server did not answer, until up is
// called. TryLock and Extend fail immediately, with an error for which
// [relock.IsRetryableErr] is true. Lock waits until up is called or ctx is
// cancelled. Unlock returns [relock.ErrUnconfirmed], and the lock is free after
// up.
//
// A hold remains valid, but its lease is not renewed: it is lost when the lease
// ends. A call under a hold still adds a level, as that sends no request. If
// Down is called more than once, the server is down until each up was called.
// up may be called more than once.
func (l *Locker) Down() (up func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == 0 {
		l.pauseLocked()
	}
	l.down++
	var once sync.Once
	return func() { once.Do(l.up) }
}

// pauseLocked lets leases end that were renewed so far.
func (l *Locker) pauseLocked() {
	if !l.settings.Watched {
		return
	}
	for _, k := range l.locks {
		if g := k.holder; g != nil {
			g.renewed = g.renewedLocked()
			g.expiry = time.AfterFunc(time.Until(g.untilLocked()), g.expire)
		}
	}
}

// up undoes one Down. The last one renews the leases that have not ended, and
// serves the waiters.
func (l *Locker) up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down--
	if l.down > 0 {
		return
	}
	for _, k := range l.locks {
		if g := k.holder; g != nil && l.settings.Watched {
			g.resumeLocked()
		}
		k.serveLocked()
	}
}

// resumeLocked renews a lease, unless it has ended while nothing renewed it.
func (g *grant) resumeLocked() {
	g.lock.locker.down++ // the clock decides by what was renewed before
	over := g.checkedLocked()
	g.lock.locker.down--
	if !over {
		g.expiry.Stop()
		g.expiry, g.renewed = nil, time.Now()
	}
}

// awayLocked returns the error of a request while the server is down.
func (l *Locker) awayLocked() error {
	if l.down > 0 {
		return errDown
	}
	return nil
}

// unconfirmedLocked is awayLocked for a release, which is repeated.
func (l *Locker) unconfirmedLocked() error {
	if l.down > 0 {
		return errs.Join(errs.ErrUnconfirmed, errDown)
	}
	return nil
}
