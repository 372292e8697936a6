package lease

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Grant is what Redis has granted to a call.
type Grant struct {
	Key      string // as the user named it
	Protocol Protocol
	Sent     time.Time // the request
	Settings *lockspec.Spec
	Tokens   script.Tokens
	Doubt    script.Indeterminate        // requests that may still take the lock
	Undo     func(time.Time) script.Call // cancels the wait that it came from; nil if there was none
}

// Queued returns what an entry of the queue was granted, by a request that was
// sent at sent.
func Queued(g *waitqueue.Granted, key string, p Protocol, sent time.Time, s *lockspec.Spec) *Grant {
	return &Grant{Key: key, Protocol: p, Sent: sent, Settings: s, Tokens: g.Tokens, Doubt: g.Doubt, Undo: g.Undo}
}

// newLease starts the belief in a grant.
func newLease(m *Manager, g *Grant) *Lease {
	s := g.Settings
	l := &Lease{
		client: m, key: g.Key, protocol: g.Protocol, doubt: g.Doubt, undo: g.Undo, tokens: g.Tokens, lease: s.Lease, due: -1, seq: 1,
		length: s.Expiry(), since: g.Sent.Sub(m.expiry.start), confirm: s.Ack(), fair: s.Fair,
	}
	l.job = background.NewJob(&renewal{lease: l})
	l.validUntil = g.Sent.Add(s.Lease - Drift(s.Lease))
	return l
}

// Grant makes the hold of a call that nobody owns. It fails if the client was
// closed, and if the lease is over already; then the key is released.
func (m *Manager) Grant(ctx context.Context, g *Grant) (*Hold, error) {
	return newLease(m, g).begin(ctx, g.Sent, g.Settings)
}

// begin enters a new lease in the client's books and returns its first level. It fails when the client was
// closed, and when the belief or the maximum hold is over before it began; then the key is released.
func (l *Lease) begin(ctx context.Context, sent time.Time, s *lockspec.Spec) (*Hold, error) {
	if err := l.client.adopt(l); err != nil {
		l.client.Logger.Warn("relock: closed before a lock was released", "key", l.key)
		return nil, err
	}
	l.mu.Lock()
	if l.over == nil {
		l.client.expiry.watch(l)
	}
	l.mu.Unlock()
	now := time.Now()
	if l.client.monitor.suspendedSince(sent, now) {
		l.lose(errs.ErrLockLost)
	}
	h, err := l.pushAt(ctx, sent, now, s)
	return h, tooLate(err)
}

// isAdopted reports whether the client's books had the lease when it began, so that Close ends it.
func (l *Lease) isAdopted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over != nil || l.levels.Live > 0
}

// ErrLate is an acquire that was granted after the lease or the maximum hold
// that it grants had ended.
var ErrLate = errs.Both(errors.New("the grant came when its lease or its maximum hold had ended"), driver.ErrTimeout)

// tooLate is why a first level that is over already, for this reason, is not granted; nil stays nil.
func tooLate(over error) error {
	if over == nil || over == errs.ErrClosed { //nolint:errorlint // our own sentinel
		return over
	}
	return ErrLate
}
