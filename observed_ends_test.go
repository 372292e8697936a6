package relock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A hold that is lost is told at once, for its reason, and not again when it is unlocked.
func TestObserverOfLosses(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		opts []relock.LockOption
		lose func(t *testing.T, s *redistest.Server, c *relock.Client)
		why  error
	}{
		"fixed lease": {opts: []relock.LockOption{relock.WithExpiry(2400 * time.Millisecond)}, why: relock.ErrLockLost},
		"max hold":    {opts: []relock.LockOption{relock.WithMaxHold(time.Second)}, why: relock.ErrMaxHold},
		"refused": {opts: []relock.LockOption{relock.WithWatchdog(3 * time.Second)}, why: relock.ErrLockLost, lose: func(t *testing.T, s *redistest.Server, c *relock.Client) {
			s.Do(t, "DEL", locktest.Engine(c).RedisKey("k"), locktest.Engine(c).RedisKey("l"))
		}},
		"forced": {opts: []relock.LockOption{relock.WithWatchdog(3 * time.Second)}, why: relock.ErrForced, lose: func(t *testing.T, _ *redistest.Server, c *relock.Client) {
			require.NoError(t, c.ForceUnlock(t.Context(), "k", "test"))
		}},
		"closed": {why: relock.ErrClosed, lose: func(t *testing.T, _ *redistest.Server, c *relock.Client) { require.NoError(t, c.Close()) }},
	} {
		for kind, newLock := range map[string]func(*relock.Client, ...relock.LockOption) relock.Mutex{
			"plain": func(c *relock.Client, opts ...relock.LockOption) relock.Mutex {
				return relock.NewRedisLock("k", c, opts...)
			},
			"reentrant": func(c *relock.Client, opts ...relock.LockOption) relock.Mutex {
				return relock.NewReentrantLock("k", c, opts...)
			},
			"write": func(c *relock.Client, opts ...relock.LockOption) relock.Mutex {
				return relock.NewRWLock("k", c, opts...)
			},
			"multi": func(c *relock.Client, opts ...relock.LockOption) relock.Mutex {
				return relock.NewMultiLock([]string{"k", "l"}, c, opts...)
			},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s, w := redistest.Shared(t), locktest.NewWitness(t)
				c := locktest.Patient(locktest.NewTestClient(t, s, relock.WithObserver(w.Observer())))
				l := newLock(c, one.opts...)
				require.NoError(t, l.Lock(locktest.Marked(t)))
				if one.lose != nil {
					one.lose(t, s, c)
				}
				e := w.Ended()
				if kind == "multi" && one.why == relock.ErrForced { //nolint:errorlint // of the table
					require.ErrorIs(t, e.Err, relock.ErrLockLost)
				} else {
					require.ErrorIs(t, e.Err, one.why)
				}
				require.Equal(t, kind, e.Kind)
				told := len(w.Heard())
				require.Equal(t, 3, told)
				require.Error(t, l.Unlock(t.Context()))
				require.Empty(t, w.Heard())
			})
		}
	}
}

// A level whose maximum hold is over ends, the others go on.
func TestObserverOfLevelThatEnds(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(w.Observer()))
	require.NoError(t, relock.NewReentrantLock("k", c).Lock(t.Context()))
	require.NoError(t, relock.NewReentrantLock("k", c, relock.WithMaxHold(time.Second)).Lock(t.Context()))
	testkit.Eventually(t, 5*time.Second, func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return w.Locked["reentrant"] == 1
	}, "the end of the inner level is told")
	require.ErrorIs(t, w.Last.Err, relock.ErrMaxHold)
	require.ErrorIs(t, relock.NewReentrantLock("k", c).Unlock(t.Context()), relock.ErrMaxHold)
	require.NoError(t, relock.NewReentrantLock("k", c).Unlock(t.Context()))
	require.NoError(t, w.Ended().Err)
}

// A hold that is over before its call was told is told right after it.
func TestObserverOfLossBeforeItIsTold(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	slow := relock.Observer{LockDone: func(context.Context, relock.LockDone) { time.Sleep(1600 * time.Millisecond) }}
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(slow), relock.WithObserver(w.Observer()))
	h, err := relock.NewRedisLock("k", c, relock.WithExpiry(1500*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	require.Error(t, h.Err())
	require.ErrorIs(t, w.Ended().Err, relock.ErrLockLost)
	require.Len(t, w.Heard(), 3)
}

// The hold ends when Unlock begins, and is told when the server has answered.
func TestObserverOfSlowUnlock(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithObserver(w.Observer()))
	h, err := relock.NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	s.Pause(t)
	unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
	<-h.Context().Done()
	over := time.Now()
	require.Len(t, w.Heard(), 2)
	s.Resume(t)
	require.NoError(t, testkit.ResultWithin(t, unlocked, 5*time.Second))
	require.False(t, w.Ended().End.After(over))
}

// A level that another goroutine of its owner unlocks before its grant was told has ended well.
func TestObserverOfUnlockBeforeItIsTold(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	var l *relock.ReentrantLock
	other := make(chan error, 1)
	eager := relock.Observer{LockDone: func(ctx context.Context, e relock.LockDone) {
		if ctx.Value(locktest.MarkKey{}) != nil {
			go func() { other <- l.Unlock(context.Background()) }()
			require.NoError(t, <-other)
			require.Empty(t, w.Last.Kind)
		}
	}}
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(eager.And(w.Observer())))
	l = relock.NewReentrantLock("k", c, relock.WithOwner("shared"))
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Lock(locktest.Marked(t)))
	require.Equal(t, `over reentrant "k" mine <nil>`, w.Heard()[4])
	require.NoError(t, l.Unlock(t.Context()))
	w.Ended()
}

// Renewals are told: those that go well, those without an answer, and the one that finds the loss.
func TestObserverOfRenewals(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithObserver(w.Observer()), relock.WithCommandTimeout(500*time.Millisecond))
	start := time.Now()
	h, err := relock.NewRedisLock("k", c, relock.WithWatchdog(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	renewed := func(as func(error) bool) func() bool {
		return func() bool {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			for _, e := range w.Renews {
				if e.Key == "k" && e.Sent.After(start) && as(e.Err) {
					w.Renews = nil
					return true
				}
			}
			return false
		}
	}
	isNil, isLoss := func(err error) bool { return err == nil }, func(err error) bool { return errors.Is(err, relock.ErrLockLost) }
	testkit.Eventually(t, 5*time.Second, renewed(isNil), "a renewal")
	s.Pause(t)
	testkit.Eventually(t, 5*time.Second, renewed(relock.IsRetryableErr), "a renewal without an answer")
	s.Resume(t)
	testkit.Eventually(t, 5*time.Second, renewed(isNil), "a renewal again")
	s.Do(t, "DEL", locktest.Engine(c).RedisKey("k"))
	testkit.Eventually(t, 5*time.Second, renewed(isLoss), "a renewal that is refused")
	require.ErrorIs(t, w.Ended().Err, relock.ErrLockLost)
	require.Error(t, h.Unlock(t.Context()))
}

// Extend is told as a renewal is, of a hold of several keys for each of them.
func TestObserverOfExtend(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s, relock.WithObserver(w.Observer()))
	start := time.Now()
	h, err := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithExpiry(time.Minute)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Extend(t.Context(), 2*time.Minute))
	told := map[string]error{}
	for _, e := range w.Renewals() {
		require.True(t, e.Sent.After(start))
		told[e.Key] = e.Err
	}
	require.Equal(t, map[string]error{"a": nil, "b": nil}, told)
	require.NoError(t, h.Unlock(t.Context()))

	h, err = relock.NewRedisLock("a", c, relock.WithExpiry(time.Minute)).Acquire(t.Context())
	require.NoError(t, err)
	s.Do(t, "DEL", locktest.KeyOf(c, "a"))
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrLockLost)
	all := w.Renewals()
	require.Len(t, all, 3)
	require.ErrorIs(t, all[2].Err, relock.ErrLockLost)
	w.Ended()
}
