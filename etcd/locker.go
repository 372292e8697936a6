package etcdlock

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/outage"
)

// Locker provides locks in etcd by name. Its holds share leases, up to 128 keys
// each. The first lease is granted with the first lock. The Locker renews them
// until [Locker.Close]. It can be used from any goroutine.
type Locker struct {
	*server
	closing sync.Once
	crowded *crowded // which locks others want
	slots   *slots
	streams *streams
	lines   *lines
	outages *outage.Log
	waiting atomic.Int64 // blocking calls under way

	sessions *sessions
	opener   opener
	holders  *holders

	unfollow func() bool // stops following the client
}

var _ relock.Locker = (*Locker)(nil)

// NewLocker returns a Locker on the client, which stays the caller's: Close
// leaves it open. It sends nothing. All mistakes are in one error that matches
// [relock.ErrInvalid].
func NewLocker(client *clientv3.Client, opts ...Option) (*Locker, error) {
	c := newConfig(opts)
	if client == nil {
		c.addMistake("client: is nil")
	}
	if err := c.err(); err != nil {
		return nil, wrap("new locker", "", err)
	}
	l := &Locker{
		server: newServer(client, c), crowded: newCrowded(), slots: newSlots(),
	}
	l.streams = &streams{server: l.server}
	l.lines = newLines(l.streams)
	l.outages = outage.New(l.logger, func(f func()) { l.tasks.Start(f) })
	l.sessions = newSessions(l.server)
	l.opener.sessions = l.sessions
	l.holders = newHolders(l.sessions)
	l.followClient()
	return l, nil
}

// Lock waits until it gets the lock or ctx ends. It goes on waiting while
// servers cannot be reached. A fair wait whose place in the queue is gone ends
// with [ErrPlaceLost].
//
// With a ctx that carries a live hold of this Locker and name (see
// [relock.HoldFromContext]), or that names an owner which has one
// ([relock.ContextWithOwner]), it goes one level deeper, without a word to the
// server.
func (l *Locker) Lock(ctx context.Context, key string) (relock.Hold, error) {
	return l.hold(ctx, key, true)
}

// TryLock makes one attempt; the error matches [relock.ErrLockAcquiredByOthers]
// when somebody else has the lock or, when it is fair, waits for it. It goes
// one level deeper as Lock does.
func (l *Locker) TryLock(ctx context.Context, key string) (relock.Hold, error) {
	return l.hold(ctx, key, false)
}

func (l *Locker) hold(ctx context.Context, key string, block bool) (relock.Hold, error) {
	h, err := l.observed(ctx, key, block)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Close ends waits and holds with [relock.ErrClosed], and revokes the leases,
// and with them all locks. It waits for the server at most a second; when that
// does not answer, the error matches [relock.ErrUnconfirmed], and the locks are
// free when the leases have ended. A second Close does nothing, but waits for
// the first. A client that is closed closes its Lockers, but releases nothing:
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
	leases := slices.Collect(maps.Keys(l.sessions.leases))
	l.sessions.closeLocked(relock.ErrClosed)
	if l.sessions.suspendTimer != nil {
		l.sessions.suspendTimer.Stop()
	}
	l.sessions.mu.Unlock()
	l.tasks.Wait()
	return l.sessions.revokeAll(leases)
}

// Logger returns the logger of [WithLogger]. A [relock.Leader] logs there why
// its campaigns fail.
func (l *Locker) Logger() *slog.Logger {
	if l.server == nil {
		return nil
	}
	return l.logger
}

// String names it.
func (l *Locker) String() string { return "locker of etcd" }

// ready returns why a call cannot begin, or nil.
func (l *Locker) ready(ctx context.Context, key string) error {
	switch {
	case l == nil || l.server == nil:
		return errNotMade
	case ctx == nil:
		return errNilContext
	case key == "":
		return fmt.Errorf("%w: key: is empty", relock.ErrInvalid)
	case len(key) > maxKey:
		return fmt.Errorf("%w: key: %d bytes are above %d", relock.ErrInvalid, len(key), maxKey)
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	case l.life.Err() != nil:
		return l.closed()
	}
	return nil
}
