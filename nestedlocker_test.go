package relock_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
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
	s := redistest.Start(t)
	l := lockerOf(t, clientOf(t, s), relock.WithWatchdog(time.Minute), relock.WithFencing())
	require.NoError(t, relock.Do(t.Context(), l, "k", func(ctx context.Context) error {
		before := commands(t, s)
		require.NotZero(t, before)
		for range 3 {
			err := relock.TryDo(ctx, l, "k", func(ctx context.Context) error {
				return relock.Do(ctx, l, "k", func(context.Context) error { return nil })
			})
			require.NoError(t, err)
		}
		require.Equal(t, before, commands(t, s))
		require.Equal(t, int64(1), s.Do(t, "EXISTS", t.Name()+":{k}"), "the levels have released the lock")
		return nil
	}))
	require.Equal(t, int64(0), s.Do(t, "EXISTS", t.Name()+":{k}"))
}

// The hold of a RedisLock and those of other Lockers of the client take levels
// if they have the same options, and no others do.
func TestWhichHoldsTakeALevel(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t))
	long := relock.WithWatchdog(time.Minute)
	for name, tt := range map[string]struct {
		outer interface {
			Do(context.Context, func(context.Context) error) error
		}
		tries error // what TryLock gets; nil if it gets a level
	}{
		"a Locker with the same options":    {relock.FromLocker(lockerOf(t, c, long), "k"), nil},
		"a RedisLock with the same options": {relock.NewRedisLock("k", c, long), nil},
		"a Locker with another lease":       {relock.FromLocker(lockerOf(t, c), "k"), relock.ErrLockAcquiredByOthers},
		"a Locker with a token":             {relock.FromLocker(lockerOf(t, c, long, relock.WithFencing()), "k"), relock.ErrLockAcquiredByOthers},
		"a fair Locker":                     {relock.FromLocker(lockerOf(t, c, long, relock.WithFair()), "k"), relock.ErrKeyConflict},
		"a MultiLock":                       {relock.NewMultiLock([]string{"k", "l"}, c, long), relock.ErrLockAcquiredByOthers},
	} {
		l := lockerOf(t, c, long)
		require.NoError(t, tt.outer.Do(t.Context(), func(ctx context.Context) error {
			try, block := tryOnce(ctx, l), lockOnce(ctx, l)
			if tt.tries == nil {
				require.NoError(t, errors.Join(try, block), name)
				return nil
			}
			require.ErrorIs(t, try, tt.tries, name)
			require.ErrorIs(t, block, relock.ErrInvalid, name)
			return nil
		}))
	}
}

// A maximum hold ends each level by itself. The server keeps the lock for the
// level that goes on.
func TestMaximumHoldOfANestedLocker(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t))
	l := lockerOf(t, c, relock.WithMaxHold(4*time.Second))
	outer, err := l.Lock(t.Context(), "k")
	require.NoError(t, err)
	var inner relock.Hold
	testkit.Eventually(t, testkit.Patience, func() bool { return time.Until(outer.ValidUntil()) < 2*time.Second }, "half of the time is over")
	inner, err = l.Lock(outer.Context(), "k")
	require.NoError(t, err)
	require.ErrorIs(t, testkit.EndedWithin(t, outer.Context(), testkit.Patience), relock.ErrMaxHold)
	for range 50 { // a release would come in the background
		require.NoError(t, inner.Err(), "the level goes on")
		require.ErrorIs(t, tryOnce(t.Context(), l), relock.ErrLockAcquiredByOthers)
		time.Sleep(5 * time.Millisecond)
	}
	_, err = l.Lock(context.WithoutCancel(outer.Context()), "k")
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, testkit.EndedWithin(t, inner.Context(), testkit.Patience), relock.ErrMaxHold)
	for _, h := range []relock.Hold{outer, inner} {
		err = h.Unlock(t.Context())
		require.ErrorIs(t, err, relock.ErrMaxHold)
		require.ErrorIs(t, err, relock.ErrNotHeld)
	}
	require.NoError(t, lockOnce(t.Context(), l))
}

// The lock is handed off within the process when the last level is unlocked,
// and not before.
func TestNestedLockerIsHandedOff(t *testing.T) {
	t.Parallel()
	l := lockerOf(t, clientOf(t, redistest.Shared(t)))
	outer, err := l.Lock(t.Context(), "k")
	require.NoError(t, err)
	inner, err := l.Lock(outer.Context(), "k")
	require.NoError(t, err)
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
	var seen []string
	note := func(what string, err error) {
		if err != nil {
			what += ": " + err.Error()
		}
		seen = append(seen, what)
	}
	c := clientOf(t, redistest.Shared(t), relock.WithObserver(relock.Observer{
		LockStart: func(_ context.Context, e relock.LockStart) { note("start "+e.Kind, nil) },
		LockDone:  func(_ context.Context, e relock.LockDone) { note("done", e.Err) },
		HoldDone:  func(_ context.Context, e relock.HoldDone) { note("end", e.Err) },
	}))
	l := lockerOf(t, c)
	require.NoError(t, relock.Do(t.Context(), l, "k", func(ctx context.Context) error {
		return relock.Do(ctx, l, "k", func(context.Context) error { return nil })
	}))
	require.Equal(t, []string{"start plain", "done", "start plain", "done", "end", "end"}, seen)
}
