package containers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// soon is a limit for what takes some milliseconds on an idle machine.
const soon = 30 * time.Second

func TestTwoClientsExcludeEachOther(t *testing.T) {
	c := start(t)
	ctx := t.Context()
	a := relock.NewRedisLock("job", c.dial(t, ""))
	b := relock.NewRedisLock("job", c.dial(t, ""))

	require.NoError(t, a.Lock(ctx))
	require.ErrorIs(t, b.Lock(ctx), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, b.TryLock(ctx), relock.ErrLockAcquiredByOthers)
	require.NoError(t, a.Unlock(ctx))
	require.ErrorIs(t, a.Unlock(ctx), relock.ErrNotHeld)

	require.NoError(t, b.TryLock(ctx))
	require.ErrorIs(t, a.TryLock(ctx), relock.ErrLockAcquiredByOthers)
	require.NoError(t, b.Unlock(ctx))
}

func TestBlockedLockGetsTheKeyAfterUnlock(t *testing.T) {
	c := start(t)
	ctx := t.Context()
	a := relock.NewRedisLock("job", c.dial(t, ""))
	b := relock.NewRedisLock("job", c.dial(t, ""), relock.WithBlockTimeout(soon))

	require.NoError(t, a.Lock(ctx))
	got := make(chan error, 1)
	go func() { got <- b.Lock(ctx) }()
	select {
	case err := <-got:
		require.FailNow(t, "the wait ended while the lock was held", "%v", err)
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, a.Unlock(ctx))
	require.NoError(t, <-got)
	require.NoError(t, b.Unlock(ctx))
}

func TestNestedLevelsShareOneHold(t *testing.T) {
	c := start(t)
	ctx := t.Context()
	client := c.dial(t, "")
	outer, inner := relock.NewReentrantLock("job", client), relock.NewReentrantLock("job", client)
	other := relock.NewReentrantLock("job", c.dial(t, ""))

	require.NoError(t, outer.Lock(ctx))
	require.NoError(t, inner.Lock(ctx))
	require.NoError(t, inner.Unlock(ctx))
	require.ErrorIs(t, other.TryLock(ctx), relock.ErrLockAcquiredByOthers, "the inner unlock has released the outer hold")
	require.NoError(t, outer.Unlock(ctx))
	require.ErrorIs(t, outer.Unlock(ctx), relock.ErrNotHeld)
	require.NoError(t, other.TryLock(ctx))
	require.NoError(t, other.Unlock(ctx))
}

func TestWatchdogOutlivesTheLease(t *testing.T) {
	const lease = 3 * time.Second
	c := start(t)
	ctx := t.Context()
	client := c.dial(t, "")
	other := c.dial(t, "")
	watched, err := relock.NewRedisLock("watched", client, relock.WithWatchdog(lease)).Acquire(ctx)
	require.NoError(t, err)
	fixed, err := relock.NewRedisLock("fixed", client, relock.WithExpiry(lease)).Acquire(ctx)
	require.NoError(t, err)

	time.Sleep(2 * lease)
	require.NoError(t, watched.Err())
	require.ErrorIs(t, relock.NewRedisLock("watched", other).TryLock(ctx), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, fixed.Err(), relock.ErrLockLost)
	taken, err := relock.NewRedisLock("fixed", other).TryAcquire(ctx)
	require.NoError(t, err, "a fixed lease was kept alive")
	require.NoError(t, taken.Unlock(ctx))
	require.ErrorIs(t, fixed.Unlock(ctx), relock.ErrLockLost)
	require.NoError(t, watched.Unlock(ctx))
}

func TestLogin(t *testing.T) {
	c := start(t, "--requirepass", "main-secret", "--user", "app", "on", ">app-secret", "~relock:*", "&*", "+@all")
	for _, test := range []struct {
		name, password string
		options        []relock.ClientOption
		want           error
	}{
		{name: "password", password: "main-secret"},
		{name: "wrong password", password: "other", want: relock.ErrDenied},
		{name: "no password", want: relock.ErrDenied},
		{name: "user", password: "app-secret", options: []relock.ClientOption{relock.WithUsername("app")}},
		{
			name: "user with wrong password", password: "main-secret",
			options: []relock.ClientOption{relock.WithUsername("app")}, want: relock.ErrDenied,
		},
		{
			name: "user without permission for the key", password: "app-secret", want: relock.ErrDenied,
			options: []relock.ClientOption{relock.WithUsername("app"), relock.WithKeyPrefix("other:")},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			lock := relock.NewRedisLock("job", c.dial(t, test.password, test.options...), relock.WithBlock())
			err := lock.Lock(ctx)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
				require.NoError(t, ctx.Err(), "Lock waited on what waiting does not help")
				return
			}
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(ctx))
		})
	}
}

func TestHoldIsLostWithItsServer(t *testing.T) {
	const lease = time.Second
	c := start(t)
	ctx := t.Context()
	lock := relock.NewRedisLock("job", c.dial(t, ""), relock.WithWatchdog(lease))
	hold, err := lock.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, hold.Err())

	c.kill(t)
	killed := testkit.NewStopwatch(t)
	select {
	case <-hold.Context().Done():
	case <-time.After(soon):
		require.FailNow(t, "the hold has not ended")
	}
	killed.Within(lease, "the hold was valid for longer than the lease")
	require.ErrorIs(t, context.Cause(hold.Context()), relock.ErrLockLost)
	require.ErrorIs(t, hold.Err(), relock.ErrLockLost)
	require.Zero(t, hold.ValidUntil())
	require.ErrorIs(t, hold.Unlock(ctx), relock.ErrLockLost)
	require.Error(t, lock.TryLock(ctx))
}
