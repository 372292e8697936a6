package relock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// An owner is the hold in ctx, the owner in ctx, or the goroutine; holds of another kind do not count.
func TestRWLockOwners(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewRWLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, NewRWLock("k", c).Lock(t.Context()), "another object, the same goroutine")
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, func() error {
		if err := l.TryLock(t.Context()); !errors.Is(err, ErrLockAcquiredByOthers) {
			return fmt.Errorf("another goroutine: %w", err)
		}
		return nil
	}), 10*time.Second))
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))

	named := owned("name", NewRWLock("k", c))
	h, err := named.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, func() error {
		return errors.Join(l.TryRLock(h.Context()), l.RUnlock(h.Context()), l.TryLock(as(t, "name")), l.Unlock(as(t, "name")))
	}), 10*time.Second))
	require.ErrorIs(t, l.TryRLock(t.Context()), ErrLockAcquiredByOthers)
	require.NoError(t, h.Unlock(t.Context()))

	another, err := owned("a", NewReentrantLock("other", c)).Acquire(t.Context())
	require.NoError(t, err)
	beside := owned("b", NewRWLock("other", c))
	require.ErrorIs(t, beside.TryLock(another.Context()), ErrKeyConflict)
	s.Do(t, "DEL", keyOf(c, "other"))
	require.NoError(t, beside.TryLock(another.Context()))
	require.Equal(t, map[string]string{c.engine.Identity.Named("b"): "w 0:1"}, rwStored(t, s, c, "other"), "the hold of another kind is no owner")
	require.NoError(t, beside.Unlock(another.Context()))
	require.ErrorIs(t, another.Unlock(t.Context()), ErrLockLost)
	require.ErrorIs(t, l.TryLock(ContextWithOwner(t.Context(), "")), ErrInvalid)
	require.ErrorIs(t, l.Unlock(ContextWithOwner(t.Context(), "")), ErrInvalid)
	requireRWGone(t, s, c, "k")
}

// A key belongs to one kind of lock, and to one mode; whoever asks for another is told, and changes nothing.
func TestRWLockConflict(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	other := sibling(t, s, c, WithBlock())
	calls := func(opts ...LockOption) map[string]func(context.Context) error {
		l := NewRWLock("k", other, opts...)
		return map[string]func(context.Context) error{"Lock": l.Lock, "RLock": l.RLock, "TryLock": l.TryLock, "TryRLock": l.TryRLock}
	}
	fair := func(l func(opts ...LockOption) map[string]func(context.Context) error) map[string]func(context.Context) error {
		return l(WithFair())
	}
	refused := func(what string, calls map[string]func(context.Context) error) {
		t.Helper()
		before := s.Content(t, keyOf(c, "k"))
		for name, call := range calls {
			require.ErrorIs(t, requireAtOnce(t, call), ErrKeyConflict, "%s, %s", name, what)
		}
		require.Equal(t, before, s.Content(t, keyOf(c, "k")), what)
	}
	for what, create := range map[string][]any{
		"string": {"SET", "x"}, "hash": {"HSET", "f", "v"}, "list": {"RPUSH", "x"}, "sorted set": {"ZADD", 1, "x"}, "set": {"SADD", "x"},
	} {
		s.Do(t, create[0].(string), append([]any{keyOf(c, "k")}, create[1:]...)...)
		refused(what, calls())
		refused(what, fair(calls))
		s.Do(t, "DEL", keyOf(c, "k"))
	}
	for what, opts := range map[string][]LockOption{"unfair": nil, "fair": {WithFair()}} {
		for name, newLock := range kinds {
			h, err := newLock("k", c, opts...).Acquire(t.Context())
			require.NoError(t, err)
			refused(what+" "+name, calls())
			refused(what+" "+name, fair(calls))
			require.NoError(t, h.Unlock(t.Context()))
		}
		l := NewRWLock("k", c, opts...)
		for _, acquire := range []func(context.Context) (Hold, error){l.Acquire, l.RAcquire} {
			h, err := acquire(t.Context())
			require.NoError(t, err)
			for name, newLock := range kinds {
				for _, mode := range [][]LockOption{nil, {WithFair()}} {
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
	requireRWGone(t, s, c, "k")
}

func TestRWLockOptions(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s, WithMinHold(time.Minute))
	require.ErrorIs(t, NewRWLock("k", c, WithMinHold(time.Second)).Validate(), ErrInvalid)
	l := NewRWLock("k", c, WithLabel("a label"), WithExpiry(20*time.Second))
	require.NoError(t, l.Validate(), "a default that it cannot honour does not count")
	require.NoError(t, l.RLock(t.Context()))
	require.LessOrEqual(t, pttl(t, s, c, "k"), 21*time.Second)
	entries := scripttest.ReadRW(t, s.Dial(t), keyOf(c, "k"))
	require.Len(t, entries, 1)
	require.Contains(t, entries[0].Info, "relock/1|s|"+c.engine.Identity.ID)
	require.Contains(t, entries[0].Info, "|a%20label|")
	require.NoError(t, l.RUnlock(t.Context()))
	requireRWGone(t, s, c, "k")

	for _, broken := range []*RWLock{{}, NewRWLock("", c), NewRWLock("k", nil)} {
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
			require.ErrorIs(t, err, ErrInvalid, "call %d", i)
		}
	}
}

// RLocker reads, by each of its methods.
func TestRWLockRLocker(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l, other := NewRWLock("k", c), NewRWLock("k", sibling(t, s, c))
	r := l.RLocker()
	require.Contains(t, fmt.Sprint(r), `"k"`)
	reads := func() {
		t.Helper()
		require.NoError(t, other.TryRLock(t.Context()))
		require.NoError(t, other.RUnlock(t.Context()))
		require.ErrorIs(t, other.TryLock(t.Context()), ErrLockAcquiredByOthers)
	}
	require.NoError(t, r.Lock(t.Context()))
	reads()
	require.NoError(t, r.TryLock(t.Context()))
	require.NoError(t, r.Unlock(t.Context()))
	reads()
	require.NoError(t, r.Unlock(t.Context()))
	require.ErrorIs(t, r.Unlock(t.Context()), ErrNotHeld)
	for _, do := range []func(context.Context, func(context.Context) error) error{r.Do, r.TryDo} {
		ran := false
		require.NoError(t, do(t.Context(), func(ctx context.Context) error {
			ran = true
			reads()
			h, ok := HoldFromContext(ctx, "k")
			require.True(t, ok)
			return h.Err()
		}))
		require.True(t, ran)
	}
	for _, do := range []func(context.Context, func(context.Context) error) error{l.Do, l.TryDo} {
		require.NoError(t, do(t.Context(), func(context.Context) error {
			require.ErrorIs(t, other.TryRLock(t.Context()), ErrLockAcquiredByOthers)
			return nil
		}))
	}
	requireRWGone(t, s, c, "k")
}
