package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
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

// newLease returns the lease of a grant. It is no member.
func newLease(c *client, g *Grant) *Lease {
	s := g.Settings
	l := &Lease{client: c, of: itself{}, tokens: g.Tokens, remote: remote{
		protocol: g.Protocol, indeterminate: g.Indeterminate, undo: g.Undo, seq: 1, maxRequested: s.Expiry(),
	}}
	l.SetUp(l, g.Key, g.Sent, s)
	if g.Claim != nil {
		byMessage{l}.expect(g.Claim)
	}
	return l
}

// Grant returns the hold of a grant that has no owner. It fails if the client
// was closed. It also fails if the lease has already ended, and then releases
// the key.
func (m *Manager) Grant(ctx context.Context, g *Grant) (*Hold, error) {
	return newLease(m.client, g).begin(ctx, g.Sent, g.Settings)
}

// Grant returns the owner's hold of a grant; the owner mutex must be held.
func (o *Owner) Grant(w *localwait.Call, g *Grant) (*Hold, error) {
	return o.begin(w, newLease(o.of.client, g), g.Sent)
}

// begin makes a lease the owner's, for the call w. Other waiting calls of the
// owner are notified, and add a level instead.
func (o *Owner) begin(w *localwait.Call, l *Lease, sent time.Time) (*Hold, error) {
	l.owner = o
	h, err := l.begin(w.Caller, sent, w.Settings)
	if err == nil {
		o.lease = l
		o.of.Enter(o.key) // until the last level is removed
		o.wakeOthers(w)
	}
	return h, err
}
