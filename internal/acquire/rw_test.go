package acquire_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

func TestRWLockReadersShareAndWritersDoNot(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	other := relock.NewRWLock("k", locktest.Sibling(t, s, c))
	l := relock.NewRWLock("k", c)
	require.NoError(t, l.Validate())

	require.NoError(t, l.RLock(locktest.As(t, "a")))
	require.NoError(t, l.RLock(locktest.As(t, "b")))
	require.NoError(t, other.RLock(locktest.As(t, "a")), "the same name on another client is another owner")
	require.ErrorIs(t, other.TryLock(locktest.As(t, "c")), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, l.TryLock(locktest.As(t, "c")), relock.ErrLockAcquiredByOthers)
	require.InDelta(t, 30*time.Second, locktest.Pttl(t, s, c, "k"), float64(time.Second), "the default lease is 30s")

	require.NoError(t, l.RUnlock(locktest.As(t, "a")))
	require.NoError(t, other.RUnlock(locktest.As(t, "a")))
	require.ErrorIs(t, l.TryLock(locktest.As(t, "c")), relock.ErrLockAcquiredByOthers, "one reader is left")
	require.NoError(t, l.RUnlock(locktest.As(t, "b")))
	locktest.RequireFree(t, s, c, "k")

	require.NoError(t, l.Lock(locktest.As(t, "c")))
	require.ErrorIs(t, l.TryRLock(locktest.As(t, "a")), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, other.TryRLock(locktest.As(t, "a")), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, other.TryLock(locktest.As(t, "a")), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, l.RUnlock(locktest.As(t, "c")), relock.ErrNotHeld, "it writes, and does not read")
	require.NoError(t, l.Unlock(locktest.As(t, "c")))
	require.ErrorIs(t, l.Unlock(locktest.As(t, "c")), relock.ErrNotHeld)
	locktest.RequireRWGone(t, s, c, "k")
}

// The table: what an owner that holds some levels gets when it asks for one more, alone or beside another.
func TestRWLockTableOfModes(t *testing.T) {
	s := redistest.Shared(t)
	type ask = func(*relock.RWLock, context.Context) error
	read, write := (*relock.RWLock).TryRLock, (*relock.RWLock).TryLock
	leave := map[byte]ask{'r': (*relock.RWLock).RUnlock, 'w': (*relock.RWLock).Unlock}
	for _, tt := range []struct {
		held, beside string // levels in their order, and what another owner on another client has
		ask          ask
		want         error
	}{
		{"", "", read, nil},
		{"", "", write, nil},
		{"", "r", read, nil},
		{"", "r", write, relock.ErrLockAcquiredByOthers},
		{"", "w", read, relock.ErrLockAcquiredByOthers},
		{"", "w", write, relock.ErrLockAcquiredByOthers},
		{"", "wr", read, relock.ErrLockAcquiredByOthers},
		{"", "rr", write, relock.ErrLockAcquiredByOthers},
		{"r", "", read, nil},
		{"r", "", write, nil},
		{"r", "r", read, nil},
		{"r", "r", write, relock.ErrUpgrade},
		{"rr", "r", write, relock.ErrUpgrade},
		{"rrr", "", write, nil},
		{"w", "", read, nil},
		{"w", "", write, nil},
		{"wr", "", write, nil},
		{"rw", "", read, nil},
		{"rwr", "", write, nil},
		{"wrw", "", read, nil},
	} {
		name := fmt.Sprintf("%q beside %q, %v", tt.held, tt.beside, tt.want)
		t.Run(name, func(t *testing.T) {
			c := locktest.NewTestClient(t, s)
			l, other := relock.NewRWLock("k", c), relock.NewRWLock("k", locktest.Sibling(t, s, c))
			take := func(l *relock.RWLock, levels string) {
				for _, level := range levels {
					if level == 'r' {
						require.NoError(t, l.RLock(locktest.As(t, "me")))
					} else {
						require.NoError(t, l.Lock(locktest.As(t, "me")))
					}
				}
			}
			if tt.want == relock.ErrUpgrade { //nolint:errorlint // our own sentinel
				take(l, tt.held)
				take(other, tt.beside)
			} else {
				take(other, tt.beside)
				take(l, tt.held)
			}
			before := locktest.RwStored(t, s, c, "k")
			start := time.Now()
			err := tt.ask(l, locktest.As(t, "me"))
			require.Less(t, time.Since(start), 5*time.Second)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
				require.Equal(t, before, locktest.RwStored(t, s, c, "k"), "it changes nothing")
			} else {
				require.NoError(t, err)
				if reflectsWrite(tt.ask, write) {
					tt.held += "w"
				} else {
					tt.held += "r"
				}
			}
			for i := len(tt.held) - 1; i >= 0; i-- {
				require.NoError(t, leave[tt.held[i]](l, locktest.As(t, "me")))
			}
			for i := len(tt.beside) - 1; i >= 0; i-- {
				require.NoError(t, leave[tt.beside[i]](other, locktest.As(t, "me")))
			}
			locktest.RequireRWGone(t, s, c, "k")
		})
	}
}

func reflectsWrite(a, b func(*relock.RWLock, context.Context) error) bool {
	return fmt.Sprintf("%p", a) == fmt.Sprintf("%p", b)
}

func TestRWLockUpgradeAndDowngrade(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l, other := relock.NewRWLock("k", c), relock.NewRWLock("k", locktest.Sibling(t, s, c))
	me, them := locktest.As(t, "me"), locktest.As(t, "them")
	mine := locktest.Engine(c).Identity.Named("me")

	require.NoError(t, l.RLock(me))
	require.NoError(t, other.RLock(them))
	waits := relock.NewRWLock("k", c, relock.WithBlock())
	start := time.Now()
	err := waits.Lock(me)
	require.ErrorIs(t, err, relock.ErrUpgrade)
	require.Less(t, time.Since(start), 5*time.Second, "at once, also WithBlock")
	require.False(t, relock.IsRetryableErr(err))
	require.Equal(t, "r 1:0", locktest.RwStored(t, s, c, "k")[mine])
	require.NoError(t, other.RUnlock(them))

	require.NoError(t, l.Lock(me), "the only one who reads may write")
	require.Equal(t, map[string]string{mine: "w 1:1"}, locktest.RwStored(t, s, c, "k"))
	require.ErrorIs(t, other.TryRLock(them), relock.ErrLockAcquiredByOthers)
	require.NoError(t, l.Unlock(me))
	require.Equal(t, map[string]string{mine: "r 1:0"}, locktest.RwStored(t, s, c, "k"))
	require.NoError(t, other.TryRLock(them), "who went on reading lets others read")
	require.NoError(t, other.RUnlock(them))
	require.NoError(t, l.RUnlock(me))

	require.NoError(t, l.Lock(me))
	require.NoError(t, l.Lock(me))
	require.NoError(t, l.RLock(me))
	require.Equal(t, map[string]string{mine: "w 1:2"}, locktest.RwStored(t, s, c, "k"))
	require.NoError(t, l.Unlock(me))
	require.ErrorIs(t, other.TryRLock(them), relock.ErrLockAcquiredByOthers, "one level that writes is left")
	require.NoError(t, l.Unlock(me))
	require.NoError(t, other.TryRLock(them))
	require.ErrorIs(t, l.TryLock(me), relock.ErrUpgrade)
	require.NoError(t, other.RUnlock(them))
	require.NoError(t, l.RUnlock(me))
	locktest.RequireRWGone(t, s, c, "k")
}
