package relock_test

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/relocktest"
)

// commands returns how many of the commands that locks use the server has run.
func commands(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	stats, err := redis.String(s.Try(t, "INFO", "commandstats"))
	require.NoError(t, err)
	for _, found := range usedByLocks.FindAllStringSubmatch(stats, -1) {
		calls, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		n += calls
	}
	return n
}

var usedByLocks = regexp.MustCompile(`cmdstat_(?:set|get|del|evalsha|eval|pexpire):calls=(\d+)`)

// A nested call of a Locker sends nothing, and neither does its Unlock.
func TestNestedCallOfALockerSendsNothing(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t)
	l := locktest.NewLocker(t, c, relock.WithWatchdog(time.Minute), relock.WithFencing())
	require.NoError(t, relock.Do(t.Context(), l, "k", func(ctx context.Context) error {
		before := commands(t, s)
		require.NotZero(t, before)
		for range 3 {
			err := relock.TryDo(ctx, l, "k", func(ctx context.Context) error {
				return relock.Do(ctx, l, "k", locktest.Nothing)
			})
			require.NoError(t, err)
		}
		require.Equal(t, before, commands(t, s))
		require.Equal(t, int64(1), s.Do(t, "EXISTS", locktest.KeyOf(c, "k")), "the levels have released the lock")
		return nil
	}))
	require.Equal(t, int64(0), s.Do(t, "EXISTS", locktest.KeyOf(c, "k")))
}

// The hold of a RedisLock and those of other Lockers of the client take levels
// if they have the same options, and no others do.
func TestWhichHoldsTakeALevel(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	long := relock.WithWatchdog(time.Minute)
	for name, tt := range map[string]struct {
		outer interface {
			Do(context.Context, func(context.Context) error) error
		}
		tries error // what TryLock gets; nil if it gets a level
	}{
		"a Locker with the same options":    {relock.FromLocker(locktest.NewLocker(t, c, long), "k"), nil},
		"a RedisLock with the same options": {relock.NewRedisLock("k", c, long), nil},
		"a Locker with another lease": {
			relock.FromLocker(locktest.NewLocker(t, c), "k"), relock.ErrLockAcquiredByOthers,
		},
		"a Locker with a token": {
			relock.FromLocker(locktest.NewLocker(t, c, long, relock.WithFencing()), "k"), relock.ErrLockAcquiredByOthers,
		},
		"a fair Locker": {relock.FromLocker(locktest.NewLocker(t, c, long, relock.WithFair()), "k"), nil},
		"a MultiLock":   {relock.NewMultiLock([]string{"k", "l"}, c, long), relock.ErrLockAcquiredByOthers},
	} {
		l := locktest.NewLocker(t, c, long)
		require.NoError(t, tt.outer.Do(t.Context(), func(ctx context.Context) error {
			try, block := tryOnce(ctx, l), lockOnce(ctx, l)
			if tt.tries == nil {
				require.NoError(t, errors.Join(try, block), name)
				return nil
			}
			require.ErrorIs(t, try, tt.tries, name)
			require.ErrorIs(t, block, relock.ErrInvalid, name)
			require.ErrorContains(t, block,
				"carries the hold that Lock would wait for; it has other options, or is of another kind", name)
			return nil
		}))
	}
}

// If the inner hold is unlocked during a nested call, the outer one takes the
// level.
func TestNestedCallWhileTheInnerHoldIsUnlocked(t *testing.T) {
	t.Parallel()
	l := locktest.NewLocker(t, locktest.NewTestClient(t, redistest.Shared(t)), relock.WithWatchdog(time.Minute))
	outer := locktest.TakeKey(t, t.Context(), l, "k")
	for range 30_000 {
		inner := locktest.TakeKey(t, outer.Context(), l, "k")
		ctx := inner.Context()
		started := make(chan struct{})
		unlocked := testkit.Async(t, func() error { close(started); return inner.Unlock(t.Context()) })
		<-started
		h, err := l.Lock(context.WithoutCancel(ctx), "k")
		require.NoError(t, err)
		require.NoError(t, testkit.ResultWithin(t, unlocked, testkit.Patience))
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.NoError(t, outer.Unlock(t.Context()))
}

// The lock is handed off within the process when the last level is unlocked,
// and not before.
func TestNestedLockerIsHandedOff(t *testing.T) {
	t.Parallel()
	l := locktest.NewLocker(t, locktest.NewTestClient(t, redistest.Shared(t)))
	outer := locktest.TakeKey(t, t.Context(), l, "k")
	inner := locktest.TakeKey(t, outer.Context(), l, "k")
	waits := testkit.Async(t, func() error { return lockOnce(t.Context(), l) })
	require.NoError(t, outer.Unlock(t.Context()))
	require.ErrorIs(t, tryOnce(t.Context(), l), relock.ErrLockAcquiredByOthers)
	require.Empty(t, waits)
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
}

// Each level is announced to the observer and ends once, in this order.
func TestObserverOfANestedLocker(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	l := locktest.NewLocker(t, locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(w.Observer())))
	require.NoError(t, relock.Do(locktest.Marked(t), l, "k", func(ctx context.Context) error {
		return relock.Do(ctx, l, "k", locktest.Nothing)
	}))
	begin := []string{`start plain "k" true mine`, `done plain "k" true mine <nil>`}
	require.Equal(t, append(append(begin, begin...), `over plain "k" mine <nil>`, `over plain "k" mine <nil>`), w.Events())
}

// oneGrant is what a lock guards: only levels of one grant are inside together.
type oneGrant struct {
	testing.TB
	mu     sync.Mutex
	token  int64
	inside int
	levels int // entries with the token of the one before
}

func (r *oneGrant) enter(h relock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case h.Fence() == r.token:
		r.levels++
	case r.inside > 0 || h.Fence() < r.token:
		r.Errorf("token %d, and %d are inside with %d", h.Fence(), r.inside, r.token)
	}
	r.token = h.Fence()
	r.inside++
}

func (r *oneGrant) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside--
}

// visit takes the lock, with a level or as a stranger, and releases it.
func (r *oneGrant) visit(ctx context.Context, l relock.Locker, inside func(context.Context)) {
	h, err := l.Lock(ctx, "k")
	if err != nil {
		r.Errorf("Lock: %v", err)
		return
	}
	r.enter(h)
	inside(h.Context())
	r.leave()
	if err := h.Unlock(ctx); err != nil {
		r.Errorf("Unlock: %v", err)
	}
}

// Levels come and go while the outer hold is unlocked. A call that comes too
// late for a level competes. No two grants are inside together, and nothing is
// left.
func TestNestedStorm(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	first := locktest.NewTestClient(t, s)
	second := locktest.Sibling(t, s, first)
	double := relocktest.NewLocker(relock.WithFencing())
	for name, lockers := range map[string][]relock.Locker{
		"in memory":  {double},
		"one client": {locktest.NewLocker(t, first, relock.WithFencing())},
		"two clients": {
			locktest.NewLocker(t, first, relock.WithFencing()), locktest.NewLocker(t, second, relock.WithFencing()),
		},
		"two clients, fair": {
			locktest.NewLocker(t, first, relock.WithFencing(), relock.WithFair()),
			locktest.NewLocker(t, second, relock.WithFencing(), relock.WithFair()),
		},
	} {
		room := &oneGrant{TB: t}
		var group sync.WaitGroup
		for _, l := range lockers {
			for range 4 {
				group.Go(func() {
					for range 20 {
						room.visit(t.Context(), l, func(ctx context.Context) {
							ctx = context.WithoutCancel(ctx) // the outer hold may end first
							inside := make(chan struct{}, 3)
							for range 3 {
								group.Go(func() { room.visit(ctx, l, func(context.Context) { inside <- struct{}{} }) })
							}
							<-inside
						})
					}
				})
			}
		}
		group.Wait()
		require.Zero(t, room.inside, name)
		require.NotZero(t, room.levels, "%s: no call got a level", name)
		require.NoError(t, tryOnce(t.Context(), lockers[0]), name)
	}
}

// A Mutex from a Locker locks what the Locker locks.
func TestFromLocker(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		ctx, l := t.Context(), relocktest.NewLocker()
		m, other := relock.FromLocker(l, "k"), relock.FromLocker(l, "k")
		require.ErrorIs(t, m.Unlock(ctx), relock.ErrNotHeld)
		require.NoError(t, m.Lock(ctx))
		for _, try := range []error{m.TryLock(ctx), other.TryLock(ctx), m.TryDo(ctx, unreached(t))} {
			require.ErrorIs(t, try, relock.ErrLockAcquiredByOthers)
			require.Equal(t, "lock", asError(t, try).Op)
		}
		require.ErrorIs(t, other.Unlock(ctx), relock.ErrNotHeld, "it is not the other's")

		waits := testkit.Async(t, func() error { return other.Lock(ctx) })
		synctest.Wait()
		require.Equal(t, 1, l.Waiting("k"))
		require.NoError(t, m.Unlock(ctx))
		require.NoError(t, <-waits)
		require.NoError(t, other.Unlock(ctx))
		require.ErrorIs(t, other.Unlock(ctx), relock.ErrNotHeld)

		own := errors.New("own")
		require.Equal(t, own, m.Do(ctx, func(context.Context) error { return own }))
		require.Equal(t, own, m.TryDo(ctx, func(context.Context) error { return own }))
	})
}

func unreached(t *testing.T) func(context.Context) error {
	return func(context.Context) error { t.Error("was run"); return nil }
}

// A wait ends with its context.
func TestFromLockerWaitEnds(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := relocktest.NewLocker()
		defer l.Busy("k")()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start, err := time.Now(), relock.FromLocker(l, "k").Lock(ctx)
		locktest.RequireIs(t, err, context.DeadlineExceeded, relock.ErrLockAcquiredByOthers)
		require.Equal(t, time.Hour, time.Since(start))
	})
}

// The Mutex stays taken after a loss, until its Unlock: that Unlock is of the
// lost hold, and ends no other one.
func TestFromLockerAfterALoss(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		ctx, l := t.Context(), relocktest.NewLocker()
		m := relock.FromLocker(l, "k")
		require.NoError(t, m.Lock(ctx))
		require.True(t, l.Lose("k"))
		require.ErrorIs(t, m.TryLock(ctx), relock.ErrLockAcquiredByOthers)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, m.Lock(short), context.DeadlineExceeded)

		next := testkit.Async(t, func() error { return m.Lock(ctx) })
		synctest.Wait()
		require.Empty(t, next)
		require.ErrorIs(t, m.Unlock(ctx), relock.ErrLockLost)
		require.NoError(t, <-next)
		require.ErrorIs(t, relock.FromLocker(l, "k").TryLock(ctx), relock.ErrLockAcquiredByOthers)
		require.NoError(t, m.Unlock(ctx))
	})
}

// A wait for the Unlock of a lost hold ends with the client.
func TestFromLockerWaitEndsWithClose(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	m := relock.FromLocker(locktest.NewLocker(t, c, relock.WithFencing()), "k")
	require.NoError(t, m.Lock(t.Context()))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	first := s.Do(t, "GET", locktest.KeyOf(c, "k")+":f")
	waits := testkit.Async(t, func() error { return m.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool {
		return !reflect.DeepEqual(first,
			s.Do(t, "GET", locktest.KeyOf(c, "k")+":f")) && s.Do(t, "EXISTS", locktest.KeyOf(c, "k")) == int64(0)
	}, "the call gets the lock, and releases it as the Mutex is taken")
	require.NoError(t, c.Close())
	require.ErrorIs(t, testkit.ResultWithin(t, waits, testkit.Patience), relock.ErrClosed)
}

// A grant that a taken Mutex has no use for is not kept for the minimum hold.
// A level is no such grant: its outer hold is used.
func TestFromLockerKeepsNoUnusedGrant(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	exists := func() any { return s.Do(t, "EXISTS", locktest.KeyOf(c, "k")) }
	ctx := t.Context()
	m := relock.FromLocker(locktest.NewLocker(t, c, relock.WithMinHold(time.Minute)), "k")
	require.NoError(t, m.Lock(ctx))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	require.ErrorIs(t, m.TryLock(ctx), relock.ErrLockAcquiredByOthers, "the Mutex is taken")
	require.Equal(t, int64(0), exists())
	_ = m.Unlock(ctx)

	require.NoError(t, m.Do(ctx, func(ctx context.Context) error {
		require.NoError(t, m.Lock(ctx))
		require.ErrorIs(t, m.TryLock(ctx), relock.ErrLockAcquiredByOthers)
		return m.Unlock(ctx)
	}))
	require.Equal(t, int64(1), exists())
}

// Do nests, as the Locker does. Lock inside of a Do takes the Mutex.
func TestFromLockerNests(t *testing.T) {
	t.Parallel()
	m := relock.FromLocker(relocktest.NewLocker(), "k")
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		require.NoError(t, m.TryDo(ctx, locktest.Nothing))
		require.NoError(t, m.Lock(ctx))
		require.ErrorIs(t, m.TryLock(ctx), relock.ErrLockAcquiredByOthers)
		require.NoError(t, m.Unlock(ctx))
		return m.TryDo(ctx, locktest.Nothing)
	}))
}

// A nil Locker is found at the first call.
func TestFromNoLocker(t *testing.T) {
	t.Parallel()
	m := relock.FromLocker(nil, "k")
	for what, err := range map[string]error{
		"Lock": m.Lock(t.Context()), "TryLock": m.TryLock(t.Context()), "Unlock": m.Unlock(t.Context()),
		"Do": m.Do(t.Context(), unreached(t)), "TryDo": m.TryDo(t.Context(), unreached(t)),
	} {
		require.ErrorIs(t, err, relock.ErrInvalid, what)
		require.ErrorContains(t, err, "locker: is nil", what)
	}
}

// tryOnce and lockOnce take the lock and release it.
func tryOnce(ctx context.Context, l relock.Locker) error {
	return relock.TryDo(ctx, l, "k", locktest.Nothing)
}

func lockOnce(ctx context.Context, l relock.Locker) error {
	return relock.Do(ctx, l, "k", locktest.Nothing)
}
