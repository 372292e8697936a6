package locktest

import (
	"context"
	"errors"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/kinds/redlock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// NewTarget returns what a lock of the client is made for, by its kind and its
// options. Defaults of the client do not count.
func NewTarget(c *relock.Client, key string, k *lockspec.Kind, opts ...relock.LockOption) *acquire.Target {
	return newTarget(c, key, k, nil, opts)
}

func newTarget(c *relock.Client, key string, k *lockspec.Kind, defaults, opts []relock.LockOption) *acquire.Target {
	var mistakes lockspec.Problems
	target := &acquire.Target{Settings: lockspec.Resolve(applied(defaults), applied(opts), k, &mistakes)}
	if err := mistakes.Err(); err != nil {
		panic(err)
	}
	target.Use(Engine(c), key)
	return target
}

func applied(opts []relock.LockOption) (all lockspec.Options) {
	for _, opt := range opts {
		opt.(lockspec.Applier).Apply(&all)
	}
	return all
}

// PatientRedLock is a RedLock with a lease of FaultLease, so that it waits
// longer for its nodes. It counts servers that are up for RedLease only: they
// are new, and remember all. No option of package relock allows that.
type PatientRedLock struct{ Quorum *redlock.Lock }

// NewPatientRedLock returns a patient lock of the key.
func NewPatientRedLock(key string, clients []*relock.Client, opts ...relock.LockOption) PatientRedLock {
	defaults := []relock.LockOption{relock.WithMaxLease(FaultLease), relock.WithWatchdog(FaultLease)}
	target := newTarget(clients[0], key, lockspec.Quorum, defaults, opts)
	target.Settings.MaxLease = RedLease
	var nodes []*lease.Manager
	for _, c := range clients {
		nodes = append(nodes, Engine(c))
	}
	named := func(n int, err error) error { return &relock.NodeError{Node: n, Err: err} }
	return PatientRedLock{redlock.New(target, nodes, named)}
}

func (l PatientRedLock) take(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	h, _, err := l.Quorum.Take(ctx, block, lasting)
	if err != nil {
		return nil, l.wrap("lock", err)
	}
	h.Announce()
	return h, nil
}

func (l PatientRedLock) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return &relock.Error{Op: op, Key: l.Quorum.Key, Err: err}
}

// Validate returns nil.
func (l PatientRedLock) Validate() error { return nil }

// Lock is that of relock.RedLock.
func (l PatientRedLock) Lock(ctx context.Context) error {
	_, err := l.take(ctx, l.Quorum.Settings.Block, true)
	return err
}

// TryLock is that of relock.RedLock.
func (l PatientRedLock) TryLock(ctx context.Context) error {
	_, err := l.take(ctx, false, true)
	return err
}

// Unlock is that of relock.RedLock.
func (l PatientRedLock) Unlock(ctx context.Context) error {
	return l.wrap("unlock", l.Quorum.Release(ctx))
}

// Acquire is that of relock.RedLock.
func (l PatientRedLock) Acquire(ctx context.Context) (relock.Hold, error) {
	return asHold(l.take(ctx, l.Quorum.Settings.Block, false))
}

// TryAcquire is that of relock.RedLock.
func (l PatientRedLock) TryAcquire(ctx context.Context) (relock.Hold, error) {
	return asHold(l.take(ctx, false, false))
}

func asHold(h *lease.Hold, err error) (relock.Hold, error) {
	if err != nil {
		return nil, err
	}
	held, _ := relock.HoldFromContext(h.Context(), h.Key())
	return held, nil
}

// Do runs f while it holds the lock.
func (l PatientRedLock) Do(ctx context.Context, f func(context.Context) error) error {
	return l.do(ctx, l.Quorum.Settings.Block, f)
}

// TryDo is Do with one attempt.
func (l PatientRedLock) TryDo(ctx context.Context, f func(context.Context) error) error {
	return l.do(ctx, false, f)
}

func (l PatientRedLock) do(ctx context.Context, block bool, f func(context.Context) error) error {
	h, err := l.take(ctx, block, true)
	if err != nil {
		return err
	}
	return errors.Join(f(h.Context()), l.wrap("unlock", l.Quorum.Unlock(h)))
}
