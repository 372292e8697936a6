package relock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

func TestRWLockReadersShareAndWritersDoNot(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	other := NewRWLock("k", sibling(t, s, c))
	l := NewRWLock("k", c)
	require.NoError(t, l.Validate())

	require.NoError(t, l.RLock(as(t, "a")))
	require.NoError(t, l.RLock(as(t, "b")))
	require.NoError(t, other.RLock(as(t, "a")), "the same name on another client is another owner")
	require.ErrorIs(t, other.TryLock(as(t, "c")), ErrLockAcquiredByOthers)
	require.ErrorIs(t, l.TryLock(as(t, "c")), ErrLockAcquiredByOthers)
	require.InDelta(t, 30*time.Second, pttl(t, s, c, "k"), float64(time.Second), "the default lease is 30s")

	require.NoError(t, l.RUnlock(as(t, "a")))
	require.NoError(t, other.RUnlock(as(t, "a")))
	require.ErrorIs(t, l.TryLock(as(t, "c")), ErrLockAcquiredByOthers, "one reader is left")
	require.NoError(t, l.RUnlock(as(t, "b")))
	requireFree(t, s, c, "k")

	require.NoError(t, l.Lock(as(t, "c")))
	require.ErrorIs(t, l.TryRLock(as(t, "a")), ErrLockAcquiredByOthers)
	require.ErrorIs(t, other.TryRLock(as(t, "a")), ErrLockAcquiredByOthers)
	require.ErrorIs(t, other.TryLock(as(t, "a")), ErrLockAcquiredByOthers)
	require.ErrorIs(t, l.RUnlock(as(t, "c")), ErrNotHeld, "it writes, and does not read")
	require.NoError(t, l.Unlock(as(t, "c")))
	require.ErrorIs(t, l.Unlock(as(t, "c")), ErrNotHeld)
	requireRWGone(t, s, c, "k")
}

// The table: what an owner that holds some levels gets when it asks for one more, alone or beside another.
func TestRWLockTableOfModes(t *testing.T) {
	s := redistest.Shared(t)
	type ask = func(*RWLock, context.Context) error
	read, write := (*RWLock).TryRLock, (*RWLock).TryLock
	leave := map[byte]ask{'r': (*RWLock).RUnlock, 'w': (*RWLock).Unlock}
	for _, tt := range []struct {
		held, beside string // levels in their order, and what another owner on another client has
		ask          ask
		want         error
	}{
		{"", "", read, nil},
		{"", "", write, nil},
		{"", "r", read, nil},
		{"", "r", write, ErrLockAcquiredByOthers},
		{"", "w", read, ErrLockAcquiredByOthers},
		{"", "w", write, ErrLockAcquiredByOthers},
		{"", "wr", read, ErrLockAcquiredByOthers},
		{"", "rr", write, ErrLockAcquiredByOthers},
		{"r", "", read, nil},
		{"r", "", write, nil},
		{"r", "r", read, nil},
		{"r", "r", write, ErrUpgrade},
		{"rr", "r", write, ErrUpgrade},
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
			c := newTestClient(t, s)
			l, other := NewRWLock("k", c), NewRWLock("k", sibling(t, s, c))
			take := func(l *RWLock, levels string) {
				for _, level := range levels {
					if level == 'r' {
						require.NoError(t, l.RLock(as(t, "me")))
					} else {
						require.NoError(t, l.Lock(as(t, "me")))
					}
				}
			}
			if tt.want == ErrUpgrade { //nolint:errorlint // our own sentinel
				take(l, tt.held)
				take(other, tt.beside)
			} else {
				take(other, tt.beside)
				take(l, tt.held)
			}
			before := rwStored(t, s, c, "k")
			start := time.Now()
			err := tt.ask(l, as(t, "me"))
			require.Less(t, time.Since(start), 5*time.Second)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
				require.Equal(t, before, rwStored(t, s, c, "k"), "it changes nothing")
			} else {
				require.NoError(t, err)
				if reflectsWrite(tt.ask, write) {
					tt.held += "w"
				} else {
					tt.held += "r"
				}
			}
			for i := len(tt.held) - 1; i >= 0; i-- {
				require.NoError(t, leave[tt.held[i]](l, as(t, "me")))
			}
			for i := len(tt.beside) - 1; i >= 0; i-- {
				require.NoError(t, leave[tt.beside[i]](other, as(t, "me")))
			}
			requireRWGone(t, s, c, "k")
		})
	}
}

func reflectsWrite(a, b func(*RWLock, context.Context) error) bool {
	return fmt.Sprintf("%p", a) == fmt.Sprintf("%p", b)
}

func TestRWLockUpgradeAndDowngrade(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l, other := NewRWLock("k", c), NewRWLock("k", sibling(t, s, c))
	me, them := as(t, "me"), as(t, "them")
	mine := c.engine.Identity.Named("me")

	require.NoError(t, l.RLock(me))
	require.NoError(t, other.RLock(them))
	waits := NewRWLock("k", c, WithBlock())
	start := time.Now()
	err := waits.Lock(me)
	require.ErrorIs(t, err, ErrUpgrade)
	require.Less(t, time.Since(start), 5*time.Second, "at once, also WithBlock")
	require.False(t, IsRetryableErr(err))
	require.Equal(t, "r 1:0", rwStored(t, s, c, "k")[mine])
	require.NoError(t, other.RUnlock(them))

	require.NoError(t, l.Lock(me), "the only one who reads may write")
	require.Equal(t, map[string]string{mine: "w 1:1"}, rwStored(t, s, c, "k"))
	require.ErrorIs(t, other.TryRLock(them), ErrLockAcquiredByOthers)
	require.NoError(t, l.Unlock(me))
	require.Equal(t, map[string]string{mine: "r 1:0"}, rwStored(t, s, c, "k"))
	require.NoError(t, other.TryRLock(them), "who went on reading lets others read")
	require.NoError(t, other.RUnlock(them))
	require.NoError(t, l.RUnlock(me))

	require.NoError(t, l.Lock(me))
	require.NoError(t, l.Lock(me))
	require.NoError(t, l.RLock(me))
	require.Equal(t, map[string]string{mine: "w 1:2"}, rwStored(t, s, c, "k"))
	require.NoError(t, l.Unlock(me))
	require.ErrorIs(t, other.TryRLock(them), ErrLockAcquiredByOthers, "one level that writes is left")
	require.NoError(t, l.Unlock(me))
	require.NoError(t, other.TryRLock(them))
	require.ErrorIs(t, l.TryLock(me), ErrUpgrade)
	require.NoError(t, other.RUnlock(them))
	require.NoError(t, l.RUnlock(me))
	requireRWGone(t, s, c, "k")
}
