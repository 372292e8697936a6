package relock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// Each call is told when it begins and ends, each hold when it ends, for every kind and way to lock.
func TestObserverOfEachKind(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	c := newTestClient(t, redistest.Shared(t), WithObserver(w.observer()))
	b := newRedBench(t, newRedServers(t, 3), WithObserver(w.observer()))
	rw := NewRWLock("k", c)
	for kind, lock := range map[string]Mutex{
		"plain": NewRedisLock("k", c), "reentrant": NewReentrantLock("k", c), "write": rw, "read": rw.RLocker(),
		"multi": NewMultiLock([]string{"k", "l"}, c), "quorum": b.patient(),
	} {
		key := map[bool]string{true: "k,l", false: "k"}[kind == "multi"]
		want := []string{
			fmt.Sprintf("start %s %q false mine", kind, key), fmt.Sprintf("done %s %q false mine <nil>", kind, key), fmt.Sprintf("over %s %q mine <nil>", kind, key),
		}
		require.NoError(t, lock.Lock(marked(t)))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Equal(t, want, w.heard())
		require.NoError(t, lock.TryLock(marked(t)))
		require.NoError(t, lock.Unlock(t.Context()))
		require.Equal(t, want, w.heard())
		require.NoError(t, lock.Do(marked(t), nothing))
		require.Equal(t, want, w.heard())
		require.NoError(t, lock.TryDo(marked(t), nothing))
		require.Equal(t, want, w.heard())
		for _, acquire := range holdersOf(lock) {
			h, err := acquire(marked(t))
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
			require.ErrorIs(t, h.Unlock(t.Context()), ErrNotHeld)
			require.Equal(t, want, w.heard())
		}
	}
	l, err := NewLocker(c)
	require.NoError(t, err)
	require.NoError(t, Do(marked(t), l, "named", nothing))
	require.Equal(t, []string{`start plain "named" true mine`, `done plain "named" true mine <nil>`, `over plain "named" mine <nil>`}, w.heard())
}

// A call that gets nothing is told, with its error; there is no hold to end. So is one that cannot even begin.
func TestObserverOfRefusals(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	w := newWitness(t)
	c := newTestClient(t, s, WithObserver(w.observer()))
	other, err := NewRedisLock("k", sibling(t, s, c)).Acquire(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Unlock(context.Background())) }()
	l := NewRedisLock("k", c, WithBlockTimeout(30*time.Millisecond))
	ended, cancel := context.WithCancel(marked(t))
	cancel()
	calls := []struct {
		err   error
		block bool
		mark  any
	}{
		{l.TryLock(marked(t)), false, "mine"},
		{l.Lock(marked(t)), true, "mine"},
		{l.Do(ended, nothing), true, "mine"},
		{l.Lock(nil), true, nil}, //nolint:staticcheck // what a hook is told then
		{NewRedisLock("k", c, WithExpiry(1)).Lock(marked(t)), false, "mine"},
	}
	told := w.heard()
	require.Len(t, told, 2*len(calls))
	for n, one := range calls {
		require.Error(t, one.err)
		require.Equal(t, []string{
			fmt.Sprintf(`start plain "k" %v %v`, one.block, one.mark), fmt.Sprintf(`done plain "k" %v %v %v`, one.block, one.mark, one.err),
		}, told[2*n:2*n+2])
	}
	require.ErrorIs(t, (&RedisLock{}).Lock(t.Context()), ErrInvalid) // nobody to tell
	require.Empty(t, w.locked)
}

// Each level of a reentrant lock is a hold of its own.
func TestObserverOfLevels(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	l := NewReentrantLock("k", newTestClient(t, redistest.Shared(t), WithObserver(w.observer())))
	for n := 1; n <= 3; n++ {
		require.NoError(t, l.Lock(t.Context()))
		require.Equal(t, n, w.locked["reentrant"])
	}
	for n := 2; n >= 0; n-- {
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, n, w.locked["reentrant"])
	}
	require.ErrorIs(t, l.Unlock(t.Context()), ErrNotHeld) // the end of no hold
	w.ended()
}

// For each call that begins there is one that ends, and for each hold one end, whoever passes it on to whom.
func TestObserverCountsInAStorm(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	s := redistest.Start(t)
	c := newTestClient(t, s, WithObserver(w.observer()))
	clients := []*Client{c, sibling(t, s, c, WithObserver(w.observer()))}
	var group sync.WaitGroup
	for g := range 16 {
		c := clients[g%2]
		rw := NewRWLock("rw", c, WithBlock())
		locks := []Mutex{NewRedisLock("p", c, WithBlock()), NewReentrantLock("r", c, WithBlock()), rw, rw.RLocker(), NewMultiLock([]string{"p", "q"}, c, WithBlock())}
		group.Go(func() {
			for range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
				_ = locks[rand.IntN(len(locks))].Do(ctx, func(ctx context.Context) error {
					return locks[rand.IntN(2)].TryDo(ctx, nothing)
				})
				cancel()
			}
			for _, l := range locks { // without a limit, for a machine too busy for 20 ms
				if err := l.Do(t.Context(), nothing); err != nil {
					t.Errorf("at the end of the storm: %v", err)
				}
			}
		})
	}
	group.Wait()
	w.ended()
	require.Zero(t, w.starts)
	for _, kind := range []string{"plain", "reentrant", "read", "write", "multi"} {
		require.Contains(t, w.locked, kind, "no such hold in the storm")
	}
}

// Two observers as one are told in turn; one that has no hook for something is not asked.
func TestObserverAnd(t *testing.T) {
	t.Parallel()
	var told []string
	note := func(name string) Observer {
		return Observer{
			LockStart: func(context.Context, LockStart) { told = append(told, name+" start") },
			LockDone:  func(context.Context, LockDone) { told = append(told, name+" done") },
			HoldDone:  func(context.Context, HoldDone) { told = append(told, name+" over") },
			RenewDone: func(context.Context, RenewDone) { told = append(told, name+" renewed") },
		}
	}
	for _, one := range []struct {
		observer Observer
		names    []string
	}{
		{note("a").And(note("b")), []string{"a", "b"}},
		{note("a").And(Observer{}), []string{"a"}},
		{Observer{}.And(note("b")), []string{"b"}},
		{note("a").And(note("b")).And(note("c")), []string{"a", "b", "c"}},
	} {
		told = nil
		one.observer.LockStart(t.Context(), LockStart{})
		one.observer.LockDone(t.Context(), LockDone{})
		one.observer.HoldDone(t.Context(), HoldDone{})
		one.observer.RenewDone(t.Context(), RenewDone{})
		var want []string
		for _, what := range []string{" start", " done", " over", " renewed"} {
			for _, name := range one.names {
				want = append(want, name+what)
			}
		}
		require.Equal(t, want, told)
	}
	require.Equal(t, Observer{}, Observer{}.And(Observer{}))
}
