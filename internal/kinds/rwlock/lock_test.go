package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// storedOf returns the levels in Redis by owner, see storedAt.
func storedOf(b *locktest.Bench, key string) map[string]string {
	b.Helper()
	return storedAt(b, b.Server, b.Client, key)
}

// requireGone checks that nothing is left of a read/write lock.
func requireGone(b *locktest.Bench, key string) {
	b.Helper()
	locktest.RequireRWGone(b, b.Server, b.Client, key)
}

type levelCall = map[byte]func(*relock.RWLock, context.Context) error

var (
	lockLevel   = levelCall{'r': (*relock.RWLock).RLock, 'w': (*relock.RWLock).Lock}
	tryLevel    = levelCall{'r': (*relock.RWLock).TryRLock, 'w': (*relock.RWLock).TryLock}
	unlockLevel = levelCall{'r': (*relock.RWLock).RUnlock, 'w': (*relock.RWLock).Unlock}
)

// The table: what an owner that holds some levels gets when it tries for one
// more, with another owner beside it or without.
func TestRWLockTableOfModes(t *testing.T) {
	s := redistest.Shared(t)
	for _, tt := range []struct {
		held, beside string // levels in their order, and those of another owner on another client
		read, write  error
	}{
		{"", "", nil, nil},
		{"", "r", nil, relock.ErrLockAcquiredByOthers},
		{"", "rr", nil, relock.ErrLockAcquiredByOthers},
		{"", "w", relock.ErrLockAcquiredByOthers, relock.ErrLockAcquiredByOthers},
		{"", "wr", relock.ErrLockAcquiredByOthers, relock.ErrLockAcquiredByOthers},
		{"r", "", nil, nil},
		{"rrr", "", nil, nil},
		{"r", "r", nil, relock.ErrUpgrade},
		{"rr", "r", nil, relock.ErrUpgrade},
		{"w", "", nil, nil},
		{"wr", "", nil, nil},
		{"rw", "", nil, nil},
		{"rwr", "", nil, nil},
		{"wrw", "", nil, nil},
	} {
		for try, want := range map[byte]error{'r': tt.read, 'w': tt.write} {
			t.Run(fmt.Sprintf("%q beside %q, %c", tt.held, tt.beside, try), func(t *testing.T) {
				b := locktest.BenchOn(t, s)
				tryTable(b, tt.held, tt.beside, try, want)
			})
		}
	}
}

func tryTable(b *locktest.Bench, held, beside string, try byte, want error) {
	l, me := relock.NewRWLock("k", b.Client), locktest.As(b, "me")
	other := relock.NewRWLock("k", b.Other) // the same name on another client is another owner
	require.NoError(b, l.Validate())
	for i := range beside {
		require.NoError(b, lockLevel[beside[i]](other, me))
	}
	for i := range held {
		require.NoError(b, lockLevel[held[i]](l, me))
	}
	before := storedOf(b, "k")
	watch := testkit.NewStopwatch(b)
	err := tryLevel[try](l, me)
	watch.Within(5 * time.Second)
	require.ErrorIs(b, err, want)
	if want != nil {
		require.Equal(b, before, storedOf(b, "k"), "it changes nothing")
	} else {
		held += string(try)
	}
	for _, mode := range "rw" {
		if !strings.ContainsRune(held, mode) {
			require.ErrorIs(b, unlockLevel[byte(mode)](l, me), relock.ErrNotHeld)
		}
	}
	for i := len(held) - 1; i >= 0; i-- {
		require.NoError(b, unlockLevel[held[i]](l, me))
	}
	for i := len(beside) - 1; i >= 0; i-- {
		require.NoError(b, unlockLevel[beside[i]](other, me))
	}
	requireGone(b, "k")
}

func TestRWLockUpgradeAndDowngrade(t *testing.T) {
	b := locktest.NewBench(t)
	l, other := relock.NewRWLock("k", b.Client), relock.NewRWLock("k", b.Other)
	me, them := locktest.As(t, "me"), locktest.As(t, "them")
	mine := locktest.Engine(b.Client).Identity.Named("me")

	require.NoError(t, l.RLock(me))
	require.NoError(t, other.RLock(them))
	waits := relock.NewRWLock("k", b.Client, relock.WithBlock())
	lockAsMe := func(ctx context.Context) error { return waits.Lock(relock.ContextWithOwner(ctx, "me")) }
	require.ErrorIs(t, locktest.RequireAtOnce(t, lockAsMe), relock.ErrUpgrade, "immediately, also WithBlock")
	require.Equal(t, "r 1:0", storedOf(b, "k")[mine])
	require.NoError(t, other.RUnlock(them))

	require.NoError(t, l.Lock(me), "the only reader may write")
	require.Equal(t, map[string]string{mine: "w 1:1"}, storedOf(b, "k"))
	require.InDelta(t, 30*time.Second, b.TTL("k"), float64(10*time.Second), "the default lease is 30s")
	require.ErrorIs(t, l.TryRLock(them), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, other.TryRLock(them), relock.ErrLockAcquiredByOthers)
	require.NoError(t, l.Unlock(me))
	require.Equal(t, map[string]string{mine: "r 1:0"}, storedOf(b, "k"))
	require.NoError(t, other.TryRLock(them), "a writer that goes on as a reader lets others read")
	require.NoError(t, other.RUnlock(them))
	require.NoError(t, l.RUnlock(me))

	require.NoError(t, l.Lock(me))
	require.NoError(t, l.Lock(me))
	require.NoError(t, l.RLock(me))
	require.Equal(t, map[string]string{mine: "w 1:2"}, storedOf(b, "k"))
	require.NoError(t, l.Unlock(me))
	require.ErrorIs(t, other.TryRLock(them), relock.ErrLockAcquiredByOthers, "one level that writes is left")
	require.NoError(t, l.Unlock(me))
	require.NoError(t, other.TryRLock(them))
	require.ErrorIs(t, l.TryLock(me), relock.ErrUpgrade)
	require.NoError(t, other.RUnlock(them))
	require.NoError(t, l.RUnlock(me))
	requireGone(b, "k")
}

// The owner is that of the hold in ctx, the owner in ctx, or the goroutine.
// Holds of another kind do not count.
func TestRWLockOwners(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewRWLock("k", b.Client)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, relock.NewRWLock("k", b.Client).Lock(t.Context()), "another object, the same goroutine")
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.TryLock(t.Context()) }), relock.ErrLockAcquiredByOthers,
		"another goroutine")
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))

	h := locktest.Take(t, locktest.OwnedRW("name", relock.NewRWLock("k", b.Client)).Acquire)
	require.NoError(t, <-testkit.Async(t, func() error {
		return errors.Join(l.TryRLock(h.Context()), l.RUnlock(h.Context()), l.TryLock(locktest.As(t, "name")),
			l.Unlock(locktest.As(t, "name")))
	}))
	require.ErrorIs(t, l.TryRLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.NoError(t, h.Unlock(t.Context()))

	another := locktest.Take(t, locktest.Owned("a", relock.NewReentrantLock("other", b.Client)).Acquire)
	beside := locktest.OwnedRW("b", relock.NewRWLock("other", b.Client))
	require.ErrorIs(t, beside.TryLock(another.Context()), relock.ErrKeyConflict)
	b.Forget("other")
	require.NoError(t, beside.TryLock(another.Context()))
	require.Equal(t, map[string]string{locktest.Engine(b.Client).Identity.Named("b"): "w 0:1"}, storedOf(b, "other"),
		"the hold of another kind is no owner")
	require.NoError(t, beside.Unlock(another.Context()))
	require.ErrorIs(t, another.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.TryLock(relock.ContextWithOwner(t.Context(), "")), relock.ErrInvalid)
	require.ErrorIs(t, l.Unlock(relock.ContextWithOwner(t.Context(), "")), relock.ErrInvalid)
	requireGone(b, "k")
}

func TestRWLockOptions(t *testing.T) {
	b := locktest.NewBench(t, relock.WithMinHold(time.Minute))
	require.ErrorIs(t, relock.NewRWLock("k", b.Client, relock.WithMinHold(time.Second)).Validate(), relock.ErrInvalid)
	l := relock.NewRWLock("k", b.Client, relock.WithLabel("a label"), relock.WithExpiry(20*time.Second))
	require.NoError(t, l.Validate(), "a default that it cannot honour does not count")
	require.NoError(t, l.RLock(t.Context()))
	require.LessOrEqual(t, b.TTL("k"), 21*time.Second)
	entries := locktest.ReadRW(t, b.Server.Dial(t), b.Key("k"))
	require.Len(t, entries, 1)
	require.Contains(t, entries[0].Info, "relock/1|s|"+locktest.Engine(b.Client).Identity.ID)
	require.Contains(t, entries[0].Info, "|a%20label|")
	require.NoError(t, l.RUnlock(t.Context()))
	requireGone(b, "k")
}

// RLocker reads, by each of its methods.
func TestRWLockRLocker(t *testing.T) {
	b := locktest.NewBench(t)
	l, other := relock.NewRWLock("k", b.Client), relock.NewRWLock("k", b.Other)
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
		require.ErrorIs(t, do(t.Context(), func(ctx context.Context) error {
			reads()
			h, ok := relock.HoldFromContext(ctx, "k")
			require.True(t, ok)
			require.NoError(t, h.Err())
			return locktest.ErrMine
		}), locktest.ErrMine)
	}
	requireGone(b, "k")
}

// A level that was ended by its maximum hold counts no longer. After the last
// level that writes, others may read.
func TestRWLockMaxHold(t *testing.T) {
	b := locktest.NewBench(t)
	l, other := relock.NewRWLock("k", b.Client), relock.NewRWLock("k", b.Other)
	me := locktest.As(t, "me")
	require.NoError(t, l.RLock(me))
	w, err := relock.NewRWLock("k", b.Client, relock.WithMaxHold(3*time.Second)).Acquire(me)
	require.NoError(t, err)
	require.ErrorIs(t, other.TryRLock(t.Context()), relock.ErrLockAcquiredByOthers)
	locktest.RequireEnds(t, w, relock.ErrMaxHold)
	testkit.Eventually(t, testkit.Patience, func() bool { return other.TryRLock(t.Context()) == nil }, "it reads only")
	require.NoError(t, other.RUnlock(t.Context()))
	require.ErrorIs(t, w.Unlock(t.Context()), relock.ErrMaxHold)
	require.NoError(t, l.Lock(me))
	require.NoError(t, l.Unlock(me))
	require.NoError(t, l.RUnlock(me))
	requireGone(b, "k")
}

// Each hold of many is renewed, and Extend extends its lease.
func TestRWLockRenewals(t *testing.T) {
	b := locktest.NewBench(t)
	const lease = 6 * time.Second
	l := relock.NewRWLock("k", b.Client, relock.WithWatchdog(lease))
	var holds []relock.Hold
	var first []time.Time
	for i := range 20 {
		h, err := l.RAcquire(locktest.As(t, fmt.Sprint(i)))
		require.NoError(t, err)
		holds, first = append(holds, h), append(first, h.ValidUntil())
	}
	for i, h := range holds { // beyond its first lease
		testkit.Eventually(t, testkit.Patience, func() bool { return h.ValidUntil().After(first[i]) }, "renewed")
	}
	require.NoError(t, holds[7].Extend(t.Context(), time.Minute))
	require.Greater(t, b.TTL("k"), 50*time.Second)
	for _, h := range holds {
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock(t.Context()))
	}
	requireGone(b, "k")
}
