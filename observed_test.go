package relock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// Each call is told when it begins and ends, each hold when it ends, for every kind and way to lock.
func TestObserverOfEachKind(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(w.Observer()))
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3), relock.WithObserver(w.Observer()))
	rw := relock.NewRWLock("k", c)
	for kind, lock := range map[string]relock.Mutex{
		"plain": relock.NewRedisLock("k", c), "reentrant": relock.NewReentrantLock("k", c), "write": rw, "read": rw.RLocker(),
		"multi": relock.NewMultiLock([]string{"k", "l"}, c), "quorum": b.Patient(),
	} {
		key := map[bool]string{true: "k,l", false: "k"}[kind == "multi"]
		want := []string{
			fmt.Sprintf("start %s %q false mine", kind, key), fmt.Sprintf("done %s %q false mine <nil>", kind, key), fmt.Sprintf("over %s %q mine <nil>", kind, key),
		}
		require.NoError(t, lock.Lock(locktest.Marked(t)))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Equal(t, want, w.Heard())
		require.NoError(t, lock.TryLock(locktest.Marked(t)))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Equal(t, want, w.Heard())
		require.NoError(t, lock.Do(locktest.Marked(t), locktest.Nothing))
		require.Equal(t, want, w.Heard())
		require.NoError(t, lock.TryDo(locktest.Marked(t), locktest.Nothing))
		require.Equal(t, want, w.Heard())
		for _, acquire := range locktest.HoldersOf(lock) {
			h, err := acquire(locktest.Marked(t))
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
			require.Equal(t, want, w.Heard())
		}
	}
	l, err := relock.NewLocker(c)
	require.NoError(t, err)
	require.NoError(t, relock.Do(locktest.Marked(t), l, "named", locktest.Nothing))
	require.Equal(t, []string{`start plain "named" true mine`, `done plain "named" true mine <nil>`, `over plain "named" mine <nil>`}, w.Heard())
}

// A call that gets nothing is told, with its error; there is no hold to end. So is one that cannot even begin.
func TestObserverOfRefusals(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	w := locktest.NewWitness(t)
	c := locktest.NewTestClient(t, s, relock.WithObserver(w.Observer()))
	other, err := relock.NewRedisLock("k", locktest.Sibling(t, s, c)).Acquire(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Unlock(context.Background())) }()
	l := relock.NewRedisLock("k", c, relock.WithBlockTimeout(30*time.Millisecond))
	ended, cancel := context.WithCancel(locktest.Marked(t))
	cancel()
	calls := []struct {
		err   error
		block bool
		mark  any
	}{
		{l.TryLock(locktest.Marked(t)), false, "mine"},
		{l.Lock(locktest.Marked(t)), true, "mine"},
		{l.Do(ended, locktest.Nothing), true, "mine"},
		{l.Lock(nil), true, nil}, //nolint:staticcheck // what a hook is told then
		{relock.NewRedisLock("k", c, relock.WithExpiry(1)).Lock(locktest.Marked(t)), false, "mine"},
	}
	told := w.Heard()
	require.Len(t, told, 2*len(calls))
	for n, one := range calls {
		require.Error(t, one.err)
		require.Equal(t, []string{
			fmt.Sprintf(`start plain "k" %v %v`, one.block, one.mark), fmt.Sprintf(`done plain "k" %v %v %v`, one.block, one.mark, one.err),
		}, told[2*n:2*n+2])
	}
	require.ErrorIs(t, (&relock.RedisLock{}).Lock(t.Context()), relock.ErrInvalid) // nobody to tell
	require.Empty(t, w.Locked)
}

// Each level of a reentrant lock is a hold of its own.
func TestObserverOfLevels(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	l := relock.NewReentrantLock("k", locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(w.Observer())))
	for n := 1; n <= 3; n++ {
		require.NoError(t, l.Lock(t.Context()))
		require.Equal(t, n, w.Locked["reentrant"])
	}
	for n := 2; n >= 0; n-- {
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, n, w.Locked["reentrant"])
	}
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld) // the end of no hold
	w.Ended()
}

// For each call that begins there is one that ends, and for each hold one end, whoever passes it on to whom.
func TestObserverCountsInAStorm(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithObserver(w.Observer()))
	clients := []*relock.Client{c, locktest.Sibling(t, s, c, relock.WithObserver(w.Observer()))}
	var group sync.WaitGroup
	for g := range 16 {
		c := clients[g%2]
		rw := relock.NewRWLock("rw", c, relock.WithBlock())
		locks := []relock.Mutex{relock.NewRedisLock("p", c, relock.WithBlock()), relock.NewReentrantLock("r", c, relock.WithBlock()), rw, rw.RLocker(), relock.NewMultiLock([]string{"p", "q"}, c, relock.WithBlock())}
		group.Go(func() {
			for range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
				_ = locks[rand.IntN(len(locks))].Do(ctx, func(ctx context.Context) error {
					return locks[rand.IntN(2)].TryDo(ctx, locktest.Nothing)
				})
				cancel()
			}
			for _, l := range locks { // without a limit, for a machine too busy for 20 ms
				if err := l.Do(t.Context(), locktest.Nothing); err != nil {
					t.Errorf("at the end of the storm: %v", err)
				}
			}
		})
	}
	group.Wait()
	w.Ended()
	require.Zero(t, w.Starts)
	for _, kind := range []string{"plain", "reentrant", "read", "write", "multi"} {
		require.Contains(t, w.Locked, kind, "no such hold in the storm")
	}
}

// Two observers as one are told in turn; one that has no hook for something is not asked.
func TestObserverAnd(t *testing.T) {
	t.Parallel()
	var told []string
	note := func(name string) relock.Observer {
		return relock.Observer{
			LockStart: func(context.Context, relock.LockStart) { told = append(told, name+" start") },
			LockDone:  func(context.Context, relock.LockDone) { told = append(told, name+" done") },
			HoldDone:  func(context.Context, relock.HoldDone) { told = append(told, name+" over") },
			RenewDone: func(relock.RenewDone) { told = append(told, name+" renewed") },
		}
	}
	for _, one := range []struct {
		observer relock.Observer
		names    []string
	}{
		{note("a").And(note("b")), []string{"a", "b"}},
		{note("a").And(relock.Observer{}), []string{"a"}},
		{relock.Observer{}.And(note("b")), []string{"b"}},
		{note("a").And(note("b")).And(note("c")), []string{"a", "b", "c"}},
	} {
		told = nil
		one.observer.LockStart(t.Context(), relock.LockStart{})
		one.observer.LockDone(t.Context(), relock.LockDone{})
		one.observer.HoldDone(t.Context(), relock.HoldDone{})
		one.observer.RenewDone(relock.RenewDone{})
		var want []string
		for _, what := range []string{" start", " done", " over", " renewed"} {
			for _, name := range one.names {
				want = append(want, name+what)
			}
		}
		require.Equal(t, want, told)
	}
	require.Equal(t, relock.Observer{}, relock.Observer{}.And(relock.Observer{}))
}
