package relock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// witness is an observer that writes down what it is told.
type witness struct {
	testing.TB

	mu     sync.Mutex
	told   []string
	starts int
	locked map[string]int // by kind, less those that have ended
	last   HoldDone
	renews []RenewDone
}

func newWitness(t testing.TB) *witness { return &witness{TB: t, locked: map[string]int{}} }

type markKey struct{}

// marked is a context that the hooks know again.
func marked(t testing.TB) context.Context { return context.WithValue(t.Context(), markKey{}, "mine") }

func (w *witness) observer() Observer {
	return Observer{LockStart: w.lockStart, LockDone: w.lockDone, HoldDone: w.holdDone, RenewDone: w.renewDone}
}

func (w *witness) lockStart(ctx context.Context, e LockStart) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts++
	w.told = append(w.told, fmt.Sprintf("start %s %q %v %v", e.Kind, e.Key, e.Block, ctx.Value(markKey{})))
}

func (w *witness) lockDone(ctx context.Context, e LockDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts--
	if e.Err == nil {
		w.locked[e.Kind]++
	}
	if e.Start.IsZero() || time.Since(e.Start) > time.Minute {
		w.Errorf("began at %v", e.Start)
	}
	w.told = append(w.told, fmt.Sprintf("done %s %q %v %v %v", e.Kind, e.Key, e.Block, ctx.Value(markKey{}), e.Err))
}

func (w *witness) holdDone(ctx context.Context, e HoldDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.locked[e.Kind]--; w.locked[e.Kind] < 0 {
		w.Errorf("the end of a %s hold that nobody was told of", e.Kind)
	}
	if ctx.Err() != nil || e.Start.IsZero() || e.End.Before(e.Start) {
		w.Errorf("a hold from %v to %v, %v", e.Start, e.End, ctx.Err())
	}
	w.last = e
	w.told = append(w.told, fmt.Sprintf("over %s %q %v %v", e.Kind, e.Key, ctx.Value(markKey{}), e.Err))
}

func (w *witness) renewDone(e RenewDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renews = append(w.renews, e)
}

// renewals are those that were told so far.
func (w *witness) renewals() []RenewDone {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.renews)
}

// heard returns what was told since the last time.
func (w *witness) heard() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.told
	w.told = nil
	return told
}

// ended is the last hold that ended, once all that were told of have.
func (w *witness) ended() HoldDone {
	w.Helper()
	eventually(w, 5*time.Second, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.locked {
			if n != 0 {
				return false
			}
		}
		return true
	}, "the end of a hold is told")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Each call is told when it begins and ends, each hold when it ends, for every kind and way to lock.
func TestObserverOfEachKind(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	c := newTestClient(t, redistest.Shared(t), WithObserver(w.observer()))
	b := newRedBench(t, newRedServers(t, 3), WithObserver(w.observer()))
	rw := NewRWLock("k", c)
	for kind, lock := range map[string]Mutex{
		"plain": NewRedisLock("k", c), "reentrant": NewReentrantLock("k", c), "write": rw, "read": rw.RLocker(),
		"multi": NewMultiLock([]string{"k", "l"}, c), "quorum": b.lock(b.clients),
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

// holdersOf are the calls of a lock that return a Hold.
func holdersOf(lock Mutex) []func(context.Context) (Hold, error) {
	switch l := lock.(type) {
	case interface {
		Acquire(context.Context) (Hold, error)
		TryAcquire(context.Context) (Hold, error)
	}:
		return []func(context.Context) (Hold, error){l.Acquire, l.TryAcquire}
	case *readLocker:
		return []func(context.Context) (Hold, error){l.lock.RAcquire, l.lock.TryRAcquire}
	}
	return nil
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

// A hold that is lost is told at once, for its reason, and not again when it is unlocked.
func TestObserverOfLosses(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		opts []LockOption
		lose func(t *testing.T, s *redistest.Server, c *Client)
		why  error
	}{
		"fixed lease": {opts: []LockOption{WithExpiry(300 * time.Millisecond)}, why: ErrLockLost},
		"max hold":    {opts: []LockOption{WithMaxHold(300 * time.Millisecond)}, why: ErrMaxHold},
		"refused": {opts: []LockOption{WithWatchdog(time.Second)}, why: ErrLockLost, lose: func(t *testing.T, s *redistest.Server, c *Client) {
			s.Do(t, "DEL", c.redisKey("k"), c.redisKey("l"))
		}},
		"forced": {opts: []LockOption{WithWatchdog(time.Second)}, why: ErrForced, lose: func(t *testing.T, _ *redistest.Server, c *Client) {
			require.NoError(t, c.ForceUnlock(t.Context(), "k", "test"))
		}},
		"closed": {why: ErrClosed, lose: func(t *testing.T, _ *redistest.Server, c *Client) { require.NoError(t, c.Close()) }},
	} {
		for kind, newLock := range map[string]func(*Client, ...LockOption) Mutex{
			"plain":     func(c *Client, opts ...LockOption) Mutex { return NewRedisLock("k", c, opts...) },
			"reentrant": func(c *Client, opts ...LockOption) Mutex { return NewReentrantLock("k", c, opts...) },
			"write":     func(c *Client, opts ...LockOption) Mutex { return NewRWLock("k", c, opts...) },
			"multi":     func(c *Client, opts ...LockOption) Mutex { return NewMultiLock([]string{"k", "l"}, c, opts...) },
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s, w := redistest.Shared(t), newWitness(t)
				c := newTestClient(t, s, WithObserver(w.observer()))
				l := newLock(c, one.opts...)
				require.NoError(t, l.Lock(marked(t)))
				if one.lose != nil {
					one.lose(t, s, c)
				}
				e := w.ended()
				if kind == "multi" && one.why == ErrForced { //nolint:errorlint // of the table
					require.ErrorIs(t, e.Err, ErrLockLost)
				} else {
					require.ErrorIs(t, e.Err, one.why)
				}
				require.Equal(t, kind, e.Kind)
				told := len(w.heard())
				require.Equal(t, 3, told)
				require.Error(t, l.Unlock(t.Context()))
				require.Empty(t, w.heard())
			})
		}
	}
}

// A level whose maximum hold is over ends, the others go on.
func TestObserverOfLevelThatEnds(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	c := newTestClient(t, redistest.Shared(t), WithObserver(w.observer()))
	require.NoError(t, NewReentrantLock("k", c).Lock(t.Context()))
	require.NoError(t, NewReentrantLock("k", c, WithMaxHold(30*time.Millisecond)).Lock(t.Context()))
	eventually(t, 5*time.Second, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.locked["reentrant"] == 1
	}, "the end of the inner level is told")
	require.ErrorIs(t, w.last.Err, ErrMaxHold)
	require.ErrorIs(t, NewReentrantLock("k", c).Unlock(t.Context()), ErrMaxHold)
	require.NoError(t, NewReentrantLock("k", c).Unlock(t.Context()))
	require.NoError(t, w.ended().Err)
}

// A hold that is over before its call was told is told right after it.
func TestObserverOfLossBeforeItIsTold(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	slow := Observer{LockDone: func(context.Context, LockDone) { time.Sleep(320 * time.Millisecond) }}
	c := newTestClient(t, redistest.Shared(t), WithObserver(slow), WithObserver(w.observer()))
	h, err := NewRedisLock("k", c, WithExpiry(300*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	require.Error(t, h.Err())
	require.ErrorIs(t, w.ended().Err, ErrLockLost)
	require.Len(t, w.heard(), 3)
}

// The hold ends when Unlock begins, and is told when the server has answered.
func TestObserverOfSlowUnlock(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	s := redistest.Start(t)
	c := newTestClient(t, s, WithObserver(w.observer()))
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	s.Pause(t)
	unlocked := async(t, func() error { return h.Unlock(context.Background()) })
	<-h.Context().Done()
	over := time.Now()
	require.Len(t, w.heard(), 2)
	s.Resume(t)
	require.NoError(t, resultWithin(t, unlocked, 5*time.Second))
	require.False(t, w.ended().End.After(over))
}

// A level that another goroutine of its owner unlocks before its grant was told has ended well.
func TestObserverOfUnlockBeforeItIsTold(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	var l *ReentrantLock
	other := make(chan error, 1)
	eager := Observer{LockDone: func(ctx context.Context, e LockDone) {
		if ctx.Value(markKey{}) != nil {
			go func() { other <- l.Unlock(context.Background()) }()
			require.NoError(t, <-other)
			require.Empty(t, w.last.Kind)
		}
	}}
	c := newTestClient(t, redistest.Shared(t), WithObserver(eager.And(w.observer())))
	l = NewReentrantLock("k", c, WithOwner("shared"))
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Lock(marked(t)))
	require.Equal(t, `over reentrant "k" mine <nil>`, w.heard()[4])
	require.NoError(t, l.Unlock(t.Context()))
	w.ended()
}

// Renewals are told: those that go well, those without an answer, and the one that finds the loss.
func TestObserverOfRenewals(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	s := redistest.Start(t)
	c := newTestClient(t, s, WithObserver(w.observer()), WithCommandTimeout(100*time.Millisecond))
	start := time.Now()
	h, err := NewRedisLock("k", c, WithWatchdog(time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	renewed := func(as func(error) bool) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, e := range w.renews {
				if e.Key == "k" && e.Sent.After(start) && as(e.Err) {
					w.renews = nil
					return true
				}
			}
			return false
		}
	}
	isNil, isLoss := func(err error) bool { return err == nil }, func(err error) bool { return errors.Is(err, ErrLockLost) }
	eventually(t, 5*time.Second, renewed(isNil), "a renewal")
	s.Pause(t)
	eventually(t, 5*time.Second, renewed(IsRetryableErr), "a renewal without an answer")
	s.Resume(t)
	eventually(t, 5*time.Second, renewed(isNil), "a renewal again")
	s.Do(t, "DEL", c.redisKey("k"))
	eventually(t, 5*time.Second, renewed(isLoss), "a renewal that is refused")
	require.ErrorIs(t, w.ended().Err, ErrLockLost)
	require.Error(t, h.Unlock(t.Context()))
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
		rw := NewRWLock("rw", c)
		locks := []Mutex{NewRedisLock("p", c, WithBlock()), NewReentrantLock("r", c, WithBlock()), rw, rw.RLocker(), NewMultiLock([]string{"p", "q"}, c, WithBlock())}
		group.Go(func() {
			for range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
				_ = locks[rand.IntN(len(locks))].Do(ctx, func(ctx context.Context) error {
					return locks[rand.IntN(2)].TryDo(ctx, nothing)
				})
				cancel()
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
			RenewDone: func(RenewDone) { told = append(told, name+" renewed") },
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
		one.observer.RenewDone(RenewDone{})
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
