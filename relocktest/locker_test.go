package relocktest

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// bench is a Locker whose calls wait in a bubble.
type bench struct {
	*testing.T
	*Locker
}

func inBubble(t *testing.T, f func(b bench), opts ...relock.LockOption) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		b := bench{t, NewLocker(opts...)}
		f(b)
		require.Empty(t, b.locks, "a key is kept that nobody uses")
	})
}

func (b bench) lock(key string) relock.Hold {
	b.Helper()
	h, err := b.Lock(b.Context(), key)
	require.NoError(b, err)
	return h
}

// waiter calls Lock on another goroutine, and returns once it waits. served
// returns the hold that the call gets.
func (b bench) waiter(key string) (served func() relock.Hold) {
	var h relock.Hold
	before, done := b.Waiting(key), make(chan error, 1)
	go func() {
		var err error
		h, err = b.Lock(b.Context(), key)
		done <- err
	}()
	synctest.Wait()
	require.Equal(b, before+1, b.Waiting(key))
	return func() relock.Hold {
		b.Helper()
		require.NoError(b, <-done)
		return h
	}
}

func (b bench) unlock(h relock.Hold) {
	b.Helper()
	require.NoError(b, h.Unlock(b.Context()))
}

func (b bench) requireHeld(key string) {
	b.Helper()
	_, err := b.TryLock(b.Context(), key)
	require.ErrorIs(b, err, relock.ErrLockAcquiredByOthers)
}

func lost(h relock.Hold) error { <-h.Context().Done(); return context.Cause(h.Context()) }

// A count that only the lock guards is right in the end, and nobody is inside
// with somebody else.
func TestExclusion(t *testing.T) {
	t.Parallel()
	l, count := NewLocker(), 0
	var inside atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				err := relock.Do(t.Context(), l, "k", func(context.Context) error {
					if inside.Add(1) != 1 {
						t.Error("two are inside")
					}
					count++
					runtime.Gosched()
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Errorf("Do: %v", err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, 1600, count)
}

// Waiters are served in the order of their calls, and TryLock overtakes nobody.
func TestWaitersAreServedInOrder(t *testing.T) {
	inBubble(t, func(b bench) {
		h := b.lock("k")
		waits := []func() relock.Hold{b.waiter("k"), b.waiter("k"), b.waiter("k")}
		require.Zero(b, b.Waiting("other"))
		for i, wait := range waits {
			b.unlock(h)
			b.requireHeld("k")
			h = wait()
			require.Equal(b, 2-i, b.Waiting("k"))
		}
		b.unlock(h)
	})
}

// A waiter whose context is cancelled leaves, and the next one is served.
func TestWaiterLeaves(t *testing.T) {
	inBubble(t, func(b bench) {
		release := b.Busy("k")
		ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
		defer cancel()
		left := make(chan error, 1)
		go func() { _, err := b.Lock(ctx, "k"); left <- err }()
		synctest.Wait()
		next := b.waiter("k")
		err := <-left
		require.ErrorIs(b, err, context.DeadlineExceeded)
		require.ErrorIs(b, err, relock.ErrLockAcquiredByOthers)
		require.Equal(b, 1, b.Waiting("k"))
		release()
		b.unlock(next())
	})
}

// Others hold a lock until each release, and take it from its holder.
func TestBusy(t *testing.T) {
	inBubble(t, func(b bench) {
		h := b.lock("k")
		wait := b.waiter("k")
		first, second := b.Busy("k"), b.Busy("k")
		require.ErrorIs(b, lost(h), relock.ErrLockLost)
		require.False(b, b.Lose("k"), "no call of this Locker has the lock")
		first()
		first()
		b.requireHeld("k")
		require.Equal(b, 1, b.Waiting("k"))
		second()
		b.unlock(wait())
		require.ErrorIs(b, h.Unlock(b.Context()), relock.ErrLockLost)
		b.unlock(b.lock("k"))
	})
}

// A lost hold stays lost. Its end disturbs no other hold.
func TestLose(t *testing.T) {
	inBubble(t, func(b bench) {
		require.False(b, b.Lose("k"))
		h := b.lock("k")
		ctx := h.Context()
		wait := b.waiter("k")
		require.True(b, b.Lose("k"))
		require.ErrorIs(b, context.Cause(ctx), relock.ErrLockLost, "as Lose returns")
		next := wait()
		require.ErrorIs(b, h.Err(), relock.ErrLockLost)
		err := h.Unlock(b.Context())
		require.ErrorIs(b, err, relock.ErrLockLost)
		require.ErrorIs(b, err, relock.ErrNotHeld)
		require.NoError(b, next.Err())
		b.requireHeld("k")
		b.unlock(next)
		require.False(b, b.Lose("k"))
	})
}

// A watched lease is renewed until Unlock. ValidUntil is at least two thirds of
// it away.
func TestWatchedLease(t *testing.T) {
	inBubble(t, func(b bench) {
		h := b.lock("k")
		for range 100 {
			time.Sleep(7 * time.Second)
			require.NoError(b, h.Err())
			left := time.Until(h.ValidUntil())
			require.True(b, left > 19*time.Second && left < 30*time.Second, "%v", left)
		}
		require.NoError(b, h.Extend(b.Context(), time.Hour))
		require.Greater(b, time.Until(h.ValidUntil()), 59*time.Minute)
		b.requireHeld("k")
		b.unlock(h)
	})
}

// A fixed lease ends, and no sooner than Extend has asked for.
func TestFixedLease(t *testing.T) {
	inBubble(t, func(b bench) {
		h := b.lock("k")
		start, wait := time.Now(), b.waiter("k")
		require.NoError(b, h.Extend(b.Context(), 2*time.Minute))
		require.ErrorIs(b, lost(h), relock.ErrLockLost)
		held := time.Since(start)
		require.True(b, held > 118*time.Second && held <= 2*time.Minute, "%v", held)
		require.Zero(b, h.ValidUntil())
		next := wait()
		time.Sleep(time.Hour)
		require.ErrorIs(b, next.Unlock(b.Context()), relock.ErrLockLost)
	}, relock.WithExpiry(time.Minute))
}

// A maximum hold ends each level by itself, and the lock with the last one.
func TestMaxHold(t *testing.T) {
	inBubble(t, func(b bench) {
		h := b.lock("k")
		require.LessOrEqual(b, time.Until(h.ValidUntil()), 10*time.Second)
		time.Sleep(5 * time.Second)
		inner, err := b.Lock(h.Context(), "k")
		require.NoError(b, err)
		require.ErrorIs(b, lost(h), relock.ErrMaxHold)
		b.requireHeld("k")
		_, err = b.Lock(context.WithoutCancel(h.Context()), "k")
		require.ErrorIs(b, err, relock.ErrLockLost)
		wait := b.waiter("k")
		why := lost(inner)
		require.ErrorIs(b, why, relock.ErrMaxHold)
		require.ErrorIs(b, why, relock.ErrLockLost)
		b.unlock(wait())
	}, relock.WithMaxHold(10*time.Second))
}

// A minimum hold keeps the lock after Unlock, but not after Lose.
func TestMinHold(t *testing.T) {
	inBubble(t, func(b bench) {
		start := time.Now()
		b.unlock(b.lock("k"))
		b.requireHeld("k")
		require.NoError(b, b.waiter("k")().Err())
		require.Equal(b, time.Minute, time.Since(start))
		require.True(b, b.Lose("k"))
		next := b.lock("k")
		time.Sleep(time.Hour)
		b.unlock(next)
		b.unlock(b.lock("k"))
		b.requireHeld("k")
		release := b.Busy("k")
		time.Sleep(time.Hour)
		b.requireHeld("k")
		release()
	}, relock.WithMinHold(time.Minute))
}

// Errors read as those of the Locker on Redis.
func TestTexts(t *testing.T) {
	const held = `relock: lock "k": lock is held by others`
	const over = `relock: hold "k": lock lost `
	for name, tt := range map[string]struct {
		opt  relock.LockOption
		do   func(b bench) error
		want string
	}{
		"refused": {nil, func(b bench) error { b.lock("k"); return try(b) }, held + " (one attempt)"},
		"kept": {
			relock.WithMinHold(time.Minute), func(b bench) error { b.unlock(b.lock("k")); return try(b) },
			held + ": minimum hold until " +
				inBubbles.Add(time.Minute).Format("2006-01-02T15:04:05.000Z07:00") + " (one attempt)",
		},
		"kept, busy": {
			relock.WithMinHold(time.Minute), func(b bench) error { b.unlock(b.lock("k")); b.Busy("k"); return try(b) },
			held + " (one attempt)",
		},
		"fixed lease":  {relock.WithExpiry(time.Second), ended, over + "(lease over)"},
		"maximum hold": {relock.WithMaxHold(time.Second), ended, over + "(maximum hold of 1s)"},
		"Lose": {
			nil, func(b bench) error { h := b.lock("k"); b.Lose("k"); return h.Err() }, over + "(the server no longer has it)",
		},
		"Busy": {
			nil, func(b bench) error { h := b.lock("k"); b.Busy("k"); return h.Err() }, over + "(the server no longer has it)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var opts []relock.LockOption
			if tt.opt != nil {
				opts = append(opts, tt.opt)
			}
			testkit.Bubble(t, func(t *testing.T) { require.EqualError(t, tt.do(bench{t, NewLocker(opts...)}), tt.want) })
		})
	}
}

// inBubbles is the time at which a bubble of synctest starts.
var inBubbles = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Local()

func try(b bench) error { _, err := b.TryLock(b.Context(), "k"); return err }

// ended returns why a hold ends that nobody unlocks.
func ended(b bench) error {
	h := b.lock("k")
	<-h.Context().Done()
	return h.Err()
}

// A full queue refuses a call that would wait.
func TestQueueLimit(t *testing.T) {
	inBubble(t, func(b bench) {
		h := b.lock("k")
		wait := b.waiter("k")
		_, err := b.Lock(b.Context(), "k")
		require.ErrorIs(b, err, relock.ErrQueueFull)
		b.requireHeld("k")
		b.unlock(h)
		b.unlock(wait())
	}, relock.WithQueueLimit(1))
}

// Mistakes in options show at the first call. They are those of the Locker of
// package relock.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		locker *Locker
		want   string
	}{
		"no option":         {NewLocker(nil), "opts[0]"},
		"a block timeout":   {NewLocker(relock.WithBlockTimeout(time.Second)), "WithBlockTimeout"},
		"too short a lease": {NewLocker(relock.WithFair(), relock.WithWatchdog(time.Millisecond)), "WithWatchdog"},
		"no constructor":    {&Locker{}, "was not made by NewLocker"},
	} {
		_, err := tt.locker.Lock(t.Context(), "k")
		require.ErrorIs(t, err, relock.ErrInvalid, name)
		require.ErrorContains(t, err, tt.want, name)
		_, err = tt.locker.TryLock(t.Context(), "k")
		require.ErrorIs(t, err, relock.ErrInvalid, name)
		require.NotPanics(t, func() { tt.locker.Busy("k")(); tt.locker.Lose("k"); tt.locker.Waiting("k") }, name)
	}
}

// What the Locker has no use for is accepted.
func TestOptionsWithoutEffect(t *testing.T) {
	inBubble(t, func(b bench) { b.unlock(b.lock("k")) },
		relock.WithBlock(), relock.WithLabel("label"), relock.WithPollInterval(time.Millisecond),
		relock.WithReplicas(3, time.Second))
}

// Lockers do not share locks, and a hold of one is no level of another's.
func TestLockersAreSeparate(t *testing.T) {
	inBubble(t, func(b bench) {
		h := b.lock("k")
		other := NewLocker()
		again, err := other.Lock(h.Context(), "k")
		require.NoError(b, err)
		b.requireHeld("k")
		b.unlock(again)
		b.unlock(h)
	})
}

// What is printed names what it is.
func TestPrinted(t *testing.T) {
	inBubble(t, func(b bench) {
		h := b.lock("a key")
		require.Equal(b, `hold of "a key"`, fmt.Sprint(h))
		require.Equal(b, "locker in memory", fmt.Sprint(b.Locker))
		b.unlock(h)
	})
}

// A program that uses the package does not link package testing.
func TestDoesNotImportTesting(t *testing.T) {
	t.Parallel()
	packages, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	require.Contains(t, string(packages), "relock/internal/holds\n")
	for _, name := range strings.Fields(string(packages)) {
		require.NotEqual(t, "testing", name)
	}
}
