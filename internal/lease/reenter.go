package lease

import (
	"context"
	"fmt"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// reenter adds a level for a call of the owner, without queueing. If its
// request is indeterminate, the number of levels is corrected in the
// background.
func (l *Lease) reenter(ctx context.Context, w *localwait.Call) (*Hold, error) {
	s := w.Settings
	if err := l.allows(s); err != nil {
		return nil, err
	}
	deeper, err := l.deeper(s)
	if err != nil {
		return nil, err
	}
	o, d := l.ask(ctx, s, deeper)
	switch {
	case o.Err != nil:
		// This includes a level that too few replicas have. Otherwise a reader
		// could keep others out as a writer does.
		if d.Exists() {
			l.client.Retrier.Retry(l.cleanup(script.Indeterminate{}))
		}
		return nil, o.Err
	case o.Reply == int64(script.Shared):
		return nil, errs.ErrUpgrade
	case o.Reply != int64(script.OK):
		return nil, l.refused(o.Reply)
	}
	if err := l.ExtendValidity(o.Sent, s.Lease); err != nil {
		return nil, errs.ForLevel(err)
	}
	return l.push(w.Caller, o.Sent, s)
}

// deeper returns the request for one more level. It fails if the lease has
// ended meanwhile.
func (l *Lease) deeper(s *lockspec.Spec) (script.Call, error) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Over() != nil {
		return script.Call{}, errs.ForLevel(l.Over())
	}
	l.seq++
	l.maxRequested = max(l.maxRequested, s.Expiry()) // even if no answer comes
	want := Levels{l.levels.Live + 1, int(l.writes)}
	if s.Kind.Writes {
		want.Writes++
	}
	return l.protocol.(enterer).Enter(want, l.seq, s.Expiry()), nil
}

// allows returns why the lease cannot have one more level with these settings,
// or nil. Either the lease was lost, or it lacks what the settings require.
func (l *Lease) allows(s *lockspec.Spec) error {
	if err := l.Check(); err != nil {
		return errs.ForLevel(err)
	}
	switch had := l.Settings.Replicas; {
	case s.Fencing && l.tokens.Fence == 0:
		return fmt.Errorf("%w: WithFencing: held without a token, requested with one", errs.ErrInvalid)
	case s.Replicas > had:
		return fmt.Errorf("%w: WithReplicas: held with %d, requested with %d", errs.ErrInvalid, had, s.Replicas)
	}
	return nil
}
