package relock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/relocktest"
)

func TestDo(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		l := newLock("k", c)
		run := func(fn func(context.Context) error) error { return l.Do(t.Context(), fn) }
		for name, check := range map[string]func(t *testing.T){
			"fn's error comes back as it is": func(t *testing.T) {
				//nolint:testifylint // identity is meant
				require.Equal(t, locktest.ErrMine, run(func(context.Context) error { return locktest.ErrMine }))
			},
			"the context carries the hold and is cancelled at the end": func(t *testing.T) {
				var kept context.Context
				require.NoError(t, run(func(ctx context.Context) error {
					require.NoError(t, carried(t, ctx, "k").Err())
					for key, none := range map[string]context.Context{"other": ctx, "k": nil} {
						_, ok := relock.HoldFromContext(none, key)
						require.False(t, ok)
					}
					kept = ctx
					return ctx.Err()
				}))
				require.ErrorIs(t, context.Cause(kept), relock.ErrNotHeld)
			},
			"the context is cancelled with the caller's": func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				//nolint:testifylint // identity is meant
				require.Equal(t, locktest.ErrMine, l.Do(ctx, func(ctx context.Context) error {
					cancel(locktest.ErrMine)
					return testkit.EndedWithin(t, ctx, testkit.Patience)
				}))
			},
			"a panic unlocks and goes on": func(t *testing.T) {
				require.PanicsWithValue(t, "boom", func() { _ = run(func(context.Context) error { panic("boom") }) })
			},
			"Goexit unlocks": func(*testing.T) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = run(func(context.Context) error { runtime.Goexit(); return nil })
				}()
				<-done
			},
			"fn is not run when others hold the lock": func(t *testing.T) {
				h := locktest.Take(t, newLock("k", locktest.Sibling(t, s, c)).Acquire)
				err := run(func(context.Context) error { t.Error("was run"); return nil })
				require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
				require.Equal(t, "lock", asError(t, err).Op)
				require.NoError(t, h.Unlock(t.Context()))
			},
			"an Unlock by fn is not an error of Do": func(t *testing.T) {
				require.NoError(t, run(func(ctx context.Context) error {
					return carried(t, ctx, "k").Unlock(ctx)
				}))
			},
		} {
			t.Run(name, func(t *testing.T) {
				check(t)
				locktest.RequireFree(t, s, c, "k")
			})
		}
		require.NoError(t, l.TryDo(t.Context(), locktest.Nothing), "the object is usable")
	})
}

// NotRun is true for the refusal of a Do itself. It is false for what its
// function returned, also if that is the refusal of another Do.
func TestNotRun(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	busy := locktest.Take(t, relock.NewRedisLock("busy", locktest.Sibling(t, s, c)).Acquire)
	refused := relock.NewRedisLock("busy", c).TryDo(t.Context(), unreached(t))
	require.NoError(t, busy.Unlock(t.Context()))
	locker := locktest.NewLocker(t, c)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range map[string]func(context.Context, func(context.Context) error) error{
		"a lock": relock.NewRedisLock("k", c).Do, "one attempt": relock.NewRedisLock("k", c).TryDo,
		"reading":  relock.NewRWLock("rw", c).RLocker().Do,
		"a Locker": relock.FromLocker(locker, "k").Do, "a Locker, one attempt": relock.FromLocker(locker, "k").TryDo,
		"a Locker of others": relock.FromLocker(own{locker}, "k").Do,
		"in memory":          relock.FromLocker(relocktest.NewLocker(), "k").Do,
	} {
		for what, err := range map[string]error{
			"refused": refused, "wrapped": fmt.Errorf("job 7: %w", refused), "joined": errors.Join(locktest.ErrMine, refused),
			"of the function": locktest.ErrMine,
		} {
			got := do(t.Context(), func(context.Context) error { return err })
			require.False(t, relock.NotRun(got), "%s: %s", name, what)
			require.False(t, relock.NotRun(fmt.Errorf("outer: %w", got)), "%s: %s", name, what)
			require.EqualError(t, got, err.Error())
			require.ErrorIs(t, got, err)
			require.Equal(t, relock.OutcomeOf(err), relock.OutcomeOf(got))
			require.Equal(t, what != "of the function", relock.NotRun(err), what)
		}
		require.False(t, relock.NotRun(do(t.Context(), locktest.Nothing)), name)
		for what, err := range map[string]error{
			"ended before": do(ended, unreached(t)), "no function": do(t.Context(), nil),
		} {
			require.True(t, relock.NotRun(err), "%s: %s", name, what)
			require.True(t, relock.NotRun(fmt.Errorf("outer: %w", err)), "%s: %s", name, what)
			require.Equal(t, "lock", asError(t, err).Op)
		}
	}
	require.True(t, relock.NotRun(relock.TryDo(t.Context(), nil, "k", unreached(t))))
	require.True(t, relock.NotRun(relock.NewRedisLock("", c).Do(t.Context(), unreached(t))))
	elsewhere := foreign{err: fmt.Errorf("elsewhere: %w", &relock.Error{Op: "lock", Key: "k", Err: relock.ErrClosed})}
	err := relock.Do(t.Context(), elsewhere, "k", unreached(t))
	require.True(t, relock.NotRun(err))
	require.EqualError(t, err, elsewhere.err.Error())
	require.False(t, relock.NotRun(nil))
	require.False(t, relock.NotRun(relock.NewRedisLock("", c).Lock(t.Context())), "no Do")
}

// A block timeout that is a default of the client does not end a Lock. Only its
// context does.
func TestLockerWaitsUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithBlockTimeout(10*time.Millisecond))
	l := locktest.NewLocker(t, c, relock.WithBlock())
	_ = locktest.TakeKey(t, t.Context(), l, "a")
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := l.Lock(ctx, "a")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
}

// A Locker's calls for one lock hand it off within the process, as those of a
// RedisLock do.
func TestLockerHandsOffInMemory(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 2)
	l := locktest.NewLocker(t, q.Clients[0])
	h := locktest.TakeKey(t, t.Context(), l, locktest.QueueKey)
	var next relock.Hold
	waits := testkit.Async(t, func() (err error) {
		next, err = l.Lock(t.Context(), locktest.QueueKey)
		return err
	})
	testkit.Eventually(t, testkit.Patience, func() bool { return q.Clients[0].Stats().Waiting == 1 }, "waits")
	value := q.Value()
	q.UnlockFresh(h)
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	require.Equal(t, value, q.Value(), "what the first of them stored")
	q.UnlockLast(next)
}

// foreign is a Locker of another library.
type foreign struct {
	relock.Locker

	err  error
	hold *foreignHold
}

func (l foreign) Lock(context.Context, string) (relock.Hold, error) {
	if l.err != nil {
		return nil, l.err
	}
	return l.hold, nil
}

// foreignHold is a hold whose context carries nothing.
type foreignHold struct {
	relock.Hold

	ctx     context.Context
	unlocks int
	unlock  error // what Unlock returns
	lost    error // what Err returns
}

func (h *foreignHold) Key() string { return "key" }

func (h *foreignHold) Context() context.Context { return h.ctx }

func (h *foreignHold) Err() error { return h.lost }

func (h *foreignHold) Unlock(ctx context.Context) error {
	h.unlocks++
	return errors.Join(h.unlock, ctx.Err())
}

// Do works with any Locker. It unlocks once, and returns what came of it.
func TestDoWithAnyLocker(t *testing.T) {
	t.Parallel()
	hold := func(unlock, lost error) foreign {
		return foreign{hold: &foreignHold{ctx: t.Context(), unlock: unlock, lost: lost}}
	}
	for name, tt := range map[string]struct {
		locker foreign
		fn     error
		is     []error
	}{
		"fine":               {locker: hold(nil, nil)},
		"the function fails": {locker: hold(nil, nil), fn: locktest.ErrMine, is: []error{locktest.ErrMine}},
		"lost":               {locker: hold(relock.ErrLockLost, nil), is: []error{relock.ErrLockLost}},
		"lost, and it fails": {
			locker: hold(relock.ErrLockLost, nil), fn: locktest.ErrMine, is: []error{locktest.ErrMine, relock.ErrLockLost},
		},
		"closed":               {locker: hold(relock.ErrClosed, nil), is: []error{relock.ErrClosed}},
		"not confirmed":        {locker: hold(relock.ErrUnconfirmed, nil)},
		"unlocked by function": {locker: hold(relock.ErrNotHeld, nil)},
		"lost, and unlocked by function": {
			locker: hold(relock.ErrNotHeld, relock.ErrLockLost), is: []error{relock.ErrLockLost},
		},
		"closed, and unlocked by function": {
			locker: hold(relock.ErrNotHeld, relock.ErrClosed), fn: locktest.ErrMine,
			is: []error{locktest.ErrMine, relock.ErrClosed},
		},
		"not locked": {locker: foreign{err: locktest.ErrMine}, is: []error{locktest.ErrMine}},
		"not locked, as another Op": {
			locker: foreign{err: &relock.Error{Op: "take", Key: "another", Err: locktest.ErrMine}},
			is:     []error{locktest.ErrMine},
		},
		"not locked, as ours": {
			locker: foreign{err: &relock.Error{Op: "lock", Key: "key", Err: relock.ErrClosed}}, is: []error{relock.ErrClosed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			err := relock.Do(ctx, tt.locker, "key", func(context.Context) error { cancel(); return tt.fn })
			cancel()
			locktest.RequireIs(t, err, tt.is...)
			require.Equal(t, tt.is == nil, err == nil)
			if tt.locker.hold != nil {
				require.Equal(t, 1, tt.locker.hold.unlocks)
				return
			}
			e := asError(t, err)
			require.Equal(t, relock.Error{Op: "lock", Key: "key", Err: e.Err}, *e)
		})
	}
}

// The function's context carries the hold. It has the deadline of the caller's,
// and the values of the hold's.
func TestContextOfDoWithAnyLocker(t *testing.T) {
	t.Parallel()
	type name struct{}
	held, lose := context.WithCancelCause(context.WithValue(t.Context(), name{}, "value"))
	l := foreign{hold: &foreignHold{ctx: held}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	require.NoError(t, relock.Do(ctx, l, "key", func(work context.Context) error {
		require.Same(t, l.hold, carried(t, work, "key"))
		_, ok := relock.HoldFromContext(work, "other")
		require.False(t, ok)
		at, _ := ctx.Deadline()
		got, ok := work.Deadline()
		require.True(t, ok && got.Equal(at))
		require.Equal(t, "value", work.Value(name{}))
		require.NoError(t, work.Err())
		cancel()
		<-work.Done()
		require.ErrorIs(t, work.Err(), context.Canceled)
		return nil
	}))
	require.NoError(t, relock.Do(t.Context(), l, "key", func(work context.Context) error {
		lose(relock.ErrLockLost)
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), relock.ErrLockLost)
		return nil
	}))
}

// TryDo makes one attempt, whatever the Locker's Lock would do. Mistakes are
// found before it.
func TestTryDo(t *testing.T) {
	t.Parallel()
	double := relocktest.NewLocker()
	require.ErrorIs(t, relock.TryDo(t.Context(), nil, "k", unreached(t)), relock.ErrInvalid)
	require.ErrorIs(t, relock.TryDo(t.Context(), double, "k", nil), relock.ErrInvalid)
	require.NoError(t, tryOnce(t.Context(), double))
	release := double.Busy("k")
	redis := locktest.NewLocker(t, locktest.NewTestClient(t, redistest.Shared(t)))
	held := locktest.TakeKey(t, t.Context(), redis, "k")
	for name, l := range map[string]relock.Locker{"in memory": double, "on Redis": redis} {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		err := relock.TryDo(ctx, l, "k", unreached(t))
		require.NoError(t, ctx.Err(), "it waited: %s", name)
		cancel()
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers, name)
		e := asError(t, err)
		require.Equal(t, relock.Error{Op: "lock", Key: "k", Err: e.Err}, *e, name)
	}
	release()
	require.NoError(t, held.Unlock(t.Context()))
	for name, l := range map[string]relock.Locker{"in memory": double, "on Redis": redis} {
		ran := false
		require.NoError(t, relock.TryDo(t.Context(), l, "k", func(context.Context) error { ran = true; return nil }), name)
		require.True(t, ran, name)
		require.NoError(t, tryOnce(t.Context(), l), "the lock was not released: %s", name)
	}
}

// A context finds the holds of all Dos around it, of whatever backend.
func TestHoldFromContext(t *testing.T) {
	t.Parallel()
	_, ok := relock.HoldFromContext(nil, "outer") //nolint:staticcheck // a nil context carries nothing
	require.False(t, ok)
	_, ok = relock.HoldFromContext(t.Context(), "outer")
	require.False(t, ok)

	c := locktest.NewTestClient(t, redistest.Shared(t))
	require.NoError(t, relock.NewRedisLock("outer", c).Do(t.Context(), func(outer context.Context) error {
		require.Equal(t, "outer", carried(t, outer, "outer").Key())
		require.NoError(t, relock.Do(outer, relocktest.NewLocker(), "inner", func(inner context.Context) error {
			require.Equal(t, "inner", carried(t, inner, "inner").Key())
			require.Equal(t, "outer", carried(t, inner, "outer").Key())
			return nil
		}))
		_, ok := relock.HoldFromContext(outer, "inner")
		require.False(t, ok)
		return nil
	}))
}

// own is a Locker of somebody else's, whose holds carry themselves.
type own struct{ relock.Locker }

type ownHold struct {
	relock.Hold
	ctx context.Context
}

func (h *ownHold) Context() context.Context { return h.ctx }

func (l own) Lock(ctx context.Context, key string) (relock.Hold, error) {
	inner, err := l.Locker.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	h := &ownHold{Hold: inner}
	h.ctx = relock.ContextWithHold(inner.Context(), h)
	return h, nil
}

// A Locker of somebody else's carries its holds with ContextWithHold.
func TestContextWithHoldOfAnotherLocker(t *testing.T) {
	t.Parallel()
	h, err := own{relocktest.NewLocker()}.Lock(t.Context(), "k")
	require.NoError(t, err)
	require.Same(t, h, carried(t, h.Context(), "k"))
	require.NoError(t, h.Unlock(t.Context()))
}

// A hold of Redis that is put into another context makes it the holder's.
func TestContextWithHoldOfRedis(t *testing.T) {
	t.Parallel()
	l := relock.NewReentrantLock("k", locktest.NewTestClient(t, redistest.Shared(t)))
	h, err := l.Acquire(relock.ContextWithOwner(t.Context(), "somebody"))
	require.NoError(t, err)
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	ctx := relock.ContextWithHold(t.Context(), h)
	require.NoError(t, l.TryLock(ctx))
	got := carried(t, ctx, "k")
	require.Equal(t, h, got)
	require.NoError(t, got.Extend(ctx, time.Minute))
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, h.Unlock(ctx))
}
