package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// An owner is the hold in ctx, the owner in ctx, the one of WithOwner, or the goroutine; holds of another kind do not count.
func TestRWLockOwners(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRWLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, relock.NewRWLock("k", c).Lock(t.Context()), "another object, the same goroutine")
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, func() error {
		if err := l.TryLock(t.Context()); !errors.Is(err, relock.ErrLockAcquiredByOthers) {
			return fmt.Errorf("another goroutine: %w", err)
		}
		return nil
	}), 10*time.Second))
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))

	named := relock.NewRWLock("k", c, relock.WithOwner("name"))
	h, err := named.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, func() error {
		return errors.Join(l.TryRLock(h.Context()), l.RUnlock(h.Context()), l.TryLock(locktest.As(t, "name")), l.Unlock(locktest.As(t, "name")))
	}), 10*time.Second))
	require.ErrorIs(t, l.TryRLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.NoError(t, h.Unlock(t.Context()))

	another, err := relock.NewReentrantLock("other", c, relock.WithOwner("a")).Acquire(t.Context())
	require.NoError(t, err)
	beside := relock.NewRWLock("other", c, relock.WithOwner("b"))
	require.ErrorIs(t, beside.TryLock(another.Context()), relock.ErrKeyConflict)
	s.Do(t, "DEL", locktest.KeyOf(c, "other"))
	require.NoError(t, beside.TryLock(another.Context()))
	require.Equal(t, map[string]string{locktest.Engine(c).Identity.Named("b"): "w 0:1"}, locktest.RwStored(t, s, c, "other"), "the hold of another kind is no owner")
	require.NoError(t, beside.Unlock(another.Context()))
	require.ErrorIs(t, another.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.TryLock(relock.ContextWithOwner(t.Context(), "")), relock.ErrInvalid)
	require.ErrorIs(t, l.Unlock(relock.ContextWithOwner(t.Context(), "")), relock.ErrInvalid)
	locktest.RequireRWGone(t, s, c, "k")
}

// A key belongs to one kind of lock, and to one mode; whoever asks for another is told, and changes nothing.
func TestRWLockConflict(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	other := locktest.Sibling(t, s, c, relock.WithBlock())
	calls := func(opts ...relock.LockOption) map[string]func(context.Context) error {
		l := relock.NewRWLock("k", other, opts...)
		return map[string]func(context.Context) error{"Lock": l.Lock, "RLock": l.RLock, "TryLock": l.TryLock, "TryRLock": l.TryRLock}
	}
	fair := func(l func(opts ...relock.LockOption) map[string]func(context.Context) error) map[string]func(context.Context) error {
		return l(relock.WithFair())
	}
	refused := func(what string, calls map[string]func(context.Context) error) {
		t.Helper()
		before := s.Content(t, locktest.KeyOf(c, "k"))
		for name, call := range calls {
			require.ErrorIs(t, locktest.RequireAtOnce(t, call), relock.ErrKeyConflict, "%s, %s", name, what)
		}
		require.Equal(t, before, s.Content(t, locktest.KeyOf(c, "k")), what)
	}
	for what, create := range map[string][]any{
		"string": {"SET", "x"}, "hash": {"HSET", "f", "v"}, "list": {"RPUSH", "x"}, "sorted set": {"ZADD", 1, "x"}, "set": {"SADD", "x"},
	} {
		s.Do(t, create[0].(string), append([]any{locktest.KeyOf(c, "k")}, create[1:]...)...)
		refused(what, calls())
		refused(what, fair(calls))
		s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	}
	for what, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
		for name, newLock := range locktest.Kinds {
			h, err := newLock("k", c, opts...).Acquire(t.Context())
			require.NoError(t, err)
			refused(what+" "+name, calls())
			refused(what+" "+name, fair(calls))
			require.NoError(t, h.Unlock(t.Context()))
		}
		l := relock.NewRWLock("k", c, opts...)
		for _, acquire := range []func(context.Context) (relock.Hold, error){l.Acquire, l.RAcquire} {
			h, err := acquire(t.Context())
			require.NoError(t, err)
			for name, newLock := range locktest.Kinds {
				for _, mode := range [][]relock.LockOption{nil, {relock.WithFair()}} {
					l := newLock("k", other, mode...)
					refused("others: "+name, map[string]func(context.Context) error{"Lock": l.Lock, "TryLock": l.TryLock})
				}
			}
			if what == "fair" {
				refused("the other mode", calls())
			} else {
				refused("the other mode", fair(calls))
			}
			require.NoError(t, h.Err())
			require.NoError(t, h.Unlock(t.Context()))
		}
	}
	locktest.RequireRWGone(t, s, c, "k")
}

func TestRWLockOptions(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s, relock.WithMinHold(time.Minute))
	require.ErrorIs(t, relock.NewRWLock("k", c, relock.WithMinHold(time.Second)).Validate(), relock.ErrInvalid)
	l := relock.NewRWLock("k", c, relock.WithLabel("a label"), relock.WithExpiry(20*time.Second))
	require.NoError(t, l.Validate(), "a default that it cannot honour does not count")
	require.NoError(t, l.RLock(t.Context()))
	require.LessOrEqual(t, locktest.Pttl(t, s, c, "k"), 21*time.Second)
	entries := scripttest.ReadRW(t, s.Dial(t), locktest.KeyOf(c, "k"))
	require.Len(t, entries, 1)
	require.Contains(t, entries[0].Info, "relock/1|s|"+locktest.Engine(c).Identity.ID)
	require.Contains(t, entries[0].Info, "|a%20label|")
	require.NoError(t, l.RUnlock(t.Context()))
	locktest.RequireRWGone(t, s, c, "k")

	for _, broken := range []*relock.RWLock{{}, relock.NewRWLock("", c), relock.NewRWLock("k", nil)} {
		ctx := t.Context()
		fn := func(context.Context) error { return nil }
		r := broken.RLocker()
		_, err1 := broken.Acquire(ctx)
		_, err2 := broken.TryAcquire(ctx)
		_, err3 := broken.RAcquire(ctx)
		_, err4 := broken.TryRAcquire(ctx)
		for i, err := range []error{
			broken.Validate(), broken.Lock(ctx), broken.TryLock(ctx), broken.Unlock(ctx), broken.RLock(ctx), broken.TryRLock(ctx),
			broken.RUnlock(ctx), broken.Do(ctx, fn), broken.TryDo(ctx, fn), r.Lock(ctx), r.TryLock(ctx), r.Unlock(ctx), r.Do(ctx, fn),
			r.TryDo(ctx, fn), err1, err2, err3, err4,
		} {
			require.ErrorIs(t, err, relock.ErrInvalid, "call %d", i)
		}
	}
}

// RLocker reads, by each of its methods.
func TestRWLockRLocker(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l, other := relock.NewRWLock("k", c), relock.NewRWLock("k", locktest.Sibling(t, s, c))
	r := l.RLocker()
	require.Contains(t, fmt.Sprint(r), `"k"`)
	reads := func() {
		t.Helper()
		require.NoError(t, other.TryRLock(t.Context()))
		require.NoError(t, other.RUnlock(t.Context()))
		require.ErrorIs(t, other.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	}
	require.NoError(t, r.Lock(t.Context()))
	reads()
	require.NoError(t, r.TryLock(t.Context()))
	require.NoError(t, r.Unlock(t.Context()))
	reads()
	require.NoError(t, r.Unlock(t.Context()))
	require.ErrorIs(t, r.Unlock(t.Context()), relock.ErrNotHeld)
	for _, do := range []func(context.Context, func(context.Context) error) error{r.Do, r.TryDo} {
		ran := false
		require.NoError(t, do(t.Context(), func(ctx context.Context) error {
			ran = true
			reads()
			h, ok := relock.HoldFromContext(ctx, "k")
			require.True(t, ok)
			return h.Err()
		}))
		require.True(t, ran)
	}
	for _, do := range []func(context.Context, func(context.Context) error) error{l.Do, l.TryDo} {
		require.NoError(t, do(t.Context(), func(context.Context) error {
			require.ErrorIs(t, other.TryRLock(t.Context()), relock.ErrLockAcquiredByOthers)
			return nil
		}))
	}
	locktest.RequireRWGone(t, s, c, "k")
}
