package lease

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Grant describes what Redis granted to a call.
type Grant struct {
	Key           string // the name given by the user
	Protocol      Protocol
	Sent          time.Time // when the request was sent
	Settings      *lockspec.Spec
	Tokens        script.Tokens
	Indeterminate script.Indeterminate        // requests that may still take the lock
	Undo          func(time.Time) script.Call // cancels the granted queue entry; nil if there was none
	Claim         *waitqueue.Claim            // of a grant by message; else nil
}

// Queued returns the grant of a queue entry.
func Queued(g *waitqueue.Granted, key string, p Protocol, s *lockspec.Spec) *Grant {
	return &Grant{
		Key: key, Protocol: p, Sent: g.Sent, Settings: s, Tokens: g.Tokens,
		Indeterminate: g.Indeterminate, Undo: g.Undo, Claim: g.Claim,
	}
}

// newLease returns the lease of a grant.
func newLease(m *Manager, g *Grant) *Lease {
	s := g.Settings
	l := &Lease{
		client: m, protocol: g.Protocol, indeterminate: g.Indeterminate, undo: g.Undo, tokens: g.Tokens, seq: 1,
		maxRequested: s.Expiry(),
	}
	l.SetUp(l, g.Key, g.Sent, s)
	l.levels.All = l.levelsBuf[:0]
	if g.Claim != nil {
		byMessage{l}.expect(g.Claim)
	}
	return l
}

// Grant returns the hold of a grant that has no owner. It fails if the client
// was closed. It also fails if the lease has already ended, and then releases
// the key.
func (m *Manager) Grant(ctx context.Context, g *Grant) (*Hold, error) {
	return newLease(m, g).begin(ctx, g.Sent, g.Settings)
}

// begin registers a new lease with the manager, and returns its first hold. It
// fails if the client was closed. It also fails if the lease or the maximum
// hold has already ended, and then releases the key.
func (l *Lease) begin(ctx context.Context, sent time.Time, s *lockspec.Spec) (*Hold, error) {
	now, err := l.Start(byMessage{l}.requested(sent))
	if err != nil {
		return nil, err
	}
	h, err := l.pushAt(ctx, sent, now, s)
	return h, tooLate(err)
}

// isAdopted reports whether begin registered the lease with the manager, so
// that Close ends it.
func (l *Lease) isAdopted() bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Over() != nil || l.levels.Live > 0
}

// ErrLate is the error of an acquire that was granted after its lease or its
// maximum hold had ended.
var ErrLate = errs.Join(errors.New("granted after the lease or maximum hold had expired"), driver.ErrTimeout)

// tooLate returns the error for a first hold that ended with over before a
// caller got it. It returns ErrLate, except that nil and ErrClosed stay as they
// are.
func tooLate(over error) error {
	if over == nil || over == errs.ErrClosed { //nolint:errorlint // our own sentinel
		return over
	}
	return ErrLate
}
