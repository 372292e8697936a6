package relock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A hold that is lost is told at once, for its reason, and not again when it is unlocked.
func TestObserverOfLosses(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		opts []LockOption
		lose func(t *testing.T, s *redistest.Server, c *Client)
		why  error
	}{
		"fixed lease": {opts: []LockOption{WithExpiry(2400 * time.Millisecond)}, why: ErrLockLost},
		"max hold":    {opts: []LockOption{WithMaxHold(time.Second)}, why: ErrMaxHold},
		"refused": {opts: []LockOption{WithWatchdog(3 * time.Second)}, why: ErrLockLost, lose: func(t *testing.T, s *redistest.Server, c *Client) {
			s.Do(t, "DEL", c.engine.RedisKey("k"), c.engine.RedisKey("l"))
		}},
		"forced": {opts: []LockOption{WithWatchdog(3 * time.Second)}, why: ErrForced, lose: func(t *testing.T, _ *redistest.Server, c *Client) {
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
				c := patient(newTestClient(t, s, WithObserver(w.observer())))
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
	require.NoError(t, NewReentrantLock("k", c, WithMaxHold(time.Second)).Lock(t.Context()))
	testkit.Eventually(t, 5*time.Second, func() bool {
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
	slow := Observer{LockDone: func(context.Context, LockDone) { time.Sleep(1600 * time.Millisecond) }}
	c := newTestClient(t, redistest.Shared(t), WithObserver(slow), WithObserver(w.observer()))
	h, err := NewRedisLock("k", c, WithExpiry(1500*time.Millisecond)).Acquire(t.Context())
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
	unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
	<-h.Context().Done()
	over := time.Now()
	require.Len(t, w.heard(), 2)
	s.Resume(t)
	require.NoError(t, testkit.ResultWithin(t, unlocked, 5*time.Second))
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
	l = owned("shared", NewReentrantLock("k", c))
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
	c := newTestClient(t, s, WithObserver(w.observer()), WithCommandTimeout(500*time.Millisecond))
	start := time.Now()
	h, err := NewRedisLock("k", c, WithWatchdog(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	renewed := func(as func(error) bool) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, e := range w.renews {
				if e.Key == "k" && e.Start.After(start) && as(e.Err) {
					w.renews = nil
					return true
				}
			}
			return false
		}
	}
	isNil, isLoss := func(err error) bool { return err == nil }, func(err error) bool { return errors.Is(err, ErrLockLost) }
	testkit.Eventually(t, 5*time.Second, renewed(isNil), "a renewal")
	s.Pause(t)
	testkit.Eventually(t, 5*time.Second, renewed(IsRetryableErr), "a renewal without an answer")
	s.Resume(t)
	testkit.Eventually(t, 5*time.Second, renewed(isNil), "a renewal again")
	s.Do(t, "DEL", c.engine.RedisKey("k"))
	testkit.Eventually(t, 5*time.Second, renewed(isLoss), "a renewal that is refused")
	require.ErrorIs(t, w.ended().Err, ErrLockLost)
	require.Error(t, h.Unlock(t.Context()))
}

// Extend is told as a renewal is, of a hold of several keys for each of them.
func TestObserverOfExtend(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	s := redistest.Shared(t)
	c := newTestClient(t, s, WithObserver(w.observer()))
	start := time.Now()
	h, err := NewMultiLock([]string{"a", "b"}, c, WithExpiry(time.Minute)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Extend(t.Context(), 2*time.Minute))
	told := map[string]error{}
	for _, e := range w.renewals() {
		require.True(t, e.Start.After(start))
		told[e.Key] = e.Err
	}
	require.Equal(t, map[string]error{"a": nil, "b": nil}, told)
	require.NoError(t, h.Unlock(t.Context()))

	h, err = NewRedisLock("a", c, WithExpiry(time.Minute)).Acquire(t.Context())
	require.NoError(t, err)
	s.Do(t, "DEL", keyOf(c, "a"))
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), ErrLockLost)
	all := w.renewals()
	require.Len(t, all, 3)
	require.ErrorIs(t, all[2].Err, ErrLockLost)
	w.ended()
}
