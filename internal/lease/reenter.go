package lease

import (
	"context"
	"fmt"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Try makes one attempt of a call, with the owner mutex held. If the owner has
// a lease, the call adds a level to it. If not, it acquires the first level by
// first. Try returns neither a hold nor an error if the owner has no lease and
// first is nil.
func (o *Owner) Try(ctx context.Context, w *localwait.Call, first func(context.Context) (*Hold, error)) (*Hold, error) {
	if !o.takeUntil(ctx) {
		return nil, driver.ErrAbandoned
	}
	defer o.give()
	switch {
	case o.lease != nil:
		return o.reenter(ctx, w)
	case first != nil:
		return first(ctx)
	}
	return nil, nil
}

// First makes one attempt for the first level of the owner, with the owner
// mutex held.
func (o *Owner) First(ctx context.Context, attempt func() (*Hold, error)) (*Hold, error) {
	if !o.takeUntil(ctx) {
		return nil, driver.ErrAbandoned
	}
	defer o.give()
	switch {
	case o.lease == nil:
		return attempt()
	case o.lease.Check() == nil:
		return nil, errs.Lost("the owner has the lock, by another hold")
	}
	return nil, fmt.Errorf("%w: owner: has a lost hold, which is not unlocked", errs.ErrInvalid)
}

// reenter adds a level for a call of the owner, without queueing. If its
// request is indeterminate, the number of levels is corrected in the
// background.
func (o *Owner) reenter(ctx context.Context, w *localwait.Call) (*Hold, error) {
	l, s := o.lease, w.Settings
	if err := o.allows(s); err != nil {
		return nil, err
	}
	deeper, err := o.deeper(s)
	if err != nil {
		return nil, err
	}
	answer, d := l.ask(ctx, s, deeper)
	switch {
	case answer.Err != nil:
		// This includes a level that too few replicas have. Otherwise a reader
		// could keep others out as a writer does.
		if d.Exists() {
			l.client.Retrier.Retry(releaser{l}.cleanup(script.Indeterminate{}))
		}
		return nil, answer.Err
	case answer.Reply == int64(script.Shared):
		return nil, errs.ErrUpgrade
	case answer.Reply != int64(script.OK):
		return nil, refusal{l}.end(answer.Reply)
	}
	if err := l.ExtendValidity(answer.Sent, s.Lease); err != nil {
		return nil, errs.ForLevel(err)
	}
	return l.push(w.Caller, answer.Sent, s)
}

// allows returns why the lease cannot have one more level with these settings,
// or nil. Either the lease was lost, or it lacks what the settings require.
func (o *Owner) allows(s *lockspec.Spec) error {
	l := o.lease
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

// deeper returns the request for one more level. It fails if the lease has
// ended meanwhile.
func (o *Owner) deeper(s *lockspec.Spec) (script.Call, error) {
	l := o.lease
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Over() != nil {
		return script.Call{}, errs.ForLevel(l.Over())
	}
	l.seq++
	l.request(s.Expiry())
	want := Levels{l.levels.Live + 1, l.levels.writes()}
	if s.Kind.Writes {
		want.Writes++
	}
	return l.protocol.(Enterer).Enter(want, l.seq, s.Expiry()), nil
}

// Depth returns how many levels the owner has. It waits for the owner mutex,
// and returns 0 if ctx is cancelled first.
func (s *Owners) Depth(ctx context.Context, key OwnerKey) int {
	o := s.Enter(key)
	defer o.Exit()
	if !o.takeUntil(ctx) {
		return 0
	}
	defer o.give()
	if o.lease == nil || o.lease.Check() != nil {
		return 0
	}
	o.lease.Mu.Lock()
	defer o.lease.Mu.Unlock()
	return o.lease.levels.Live
}
