package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	overgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The code of docs/migration.md compiles.
func TestMigrationCode(t *testing.T) {
	check := testkit.NewCodeChecker(t, []string{
		"context", "errors", "time", "github.com/bsm/redislock", "github.com/go-redsync/redsync/v4",
		"github.com/redis/rueidis/rueidislock", "github.com/relock-go/relock",
	}, `
	var (
		ctx    context.Context
		client *relock.Client
		rs     *redsync.Redsync
		report func(context.Context) error
	)`)
	blocks := testkit.CodeBlocks(t, "../docs/migration.md")
	require.Len(t, blocks, 8)
	for i, block := range blocks {
		declare := ""
		switch i {
		case 2:
			declare = "var locker *redislock.Client\n"
		case 4:
			declare = "var locker rueidislock.Locker\n"
		}
		require.NoError(t, check.Check(declare+block), block)
	}
}

// An old lock of another library, and its prefix for relock.
type old struct {
	prefix string
	take   func(ctx context.Context) (release func(), err error)
}

func oldLocks(t *testing.T, address string) map[string]old {
	client := goredis.NewClient(&goredis.Options{Addr: address})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	mutex := redsync.New(overgoredis.NewPool(client)).NewMutex("r:{k}")
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{address}}, KeyPrefix: "u", KeyMajority: 1,
	})
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return map[string]old{
		"redsync": {"r:", func(ctx context.Context) (func(), error) {
			return func() { _, _ = mutex.UnlockContext(ctx) }, mutex.TryLockContext(ctx)
		}},
		"redislock": {"b:", func(ctx context.Context) (func(), error) {
			lock, err := redislock.New(client).Obtain(ctx, "b:{k}", time.Minute, nil)
			return func() { _ = lock.Release(ctx) }, err
		}},
		"rueidislock": {"u:0:", func(ctx context.Context) (func(), error) {
			_, cancel, err := locker.TryWithContext(ctx, "{k}")
			return cancel, err
		}},
	}
}

// A lock of relock and one of another library exclude each other on one key.
// relock does not wait for the other one.
func TestSameKeyExcludes(t *testing.T) {
	s := redistest.StartTCP(t)
	for name, other := range oldLocks(t, s.Address) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c, err := relock.NewClient(s.Network, s.Address, "", relock.WithKeyPrefix(other.prefix), relock.WithBlock())
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			lock := relock.NewRedisLock("k", c)

			release, err := other.take(ctx)
			require.NoError(t, err)
			require.ErrorIs(t, lock.Lock(ctx), relock.ErrKeyConflict)
			release()
			require.NoError(t, lock.Lock(ctx))
			_, err = other.take(ctx)
			require.True(t, errors.As(err, new(*redsync.ErrTaken)) || errors.Is(err, redislock.ErrNotObtained) ||
				errors.Is(err, rueidislock.ErrNotLocked), err)
			require.NoError(t, lock.Unlock(ctx))
			release, err = other.take(ctx)
			require.NoError(t, err)
			release()
		})
	}
}

// While calls of relock wait for a key, each Unlock gives it to the next one.
// So the other library never finds it free. Beside calls that only try, it
// does.
func TestWaitersKeepTheOldLockOut(t *testing.T) {
	s := redistest.StartTCP(t)
	for name, other := range oldLocks(t, s.Address) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			lock := func(opts ...relock.ClientOption) (*relock.Client, *relock.RedisLock) {
				c, err := relock.NewClient(s.Network, s.Address, "", append(opts, relock.WithKeyPrefix(other.prefix))...)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, c.Close()) })
				return c, relock.NewRedisLock("k", c)
			}
			client, held := lock(relock.WithBlock())
			_, next := lock(relock.WithBlock())
			require.NoError(t, held.Lock(ctx))
			granted := testkit.Async(t, func() error { return next.Lock(ctx) })
			for range 20 {
				requireWaiter(t, client)
				_, err := other.take(ctx)
				require.Error(t, err)
				require.NoError(t, held.Unlock(ctx))
				_, err = other.take(ctx)
				require.Error(t, err, "the lock was given to the waiter")
				require.NoError(t, <-granted)
				unlocked := held
				held, next = next, unlocked
				granted = testkit.Async(t, func() error { return unlocked.Lock(ctx) })
			}
			requireWaiter(t, client)
			require.NoError(t, held.Unlock(ctx))
			require.NoError(t, <-granted)
			require.NoError(t, next.Unlock(ctx))

			_, tries := lock()
			for got := 0; got < 3; {
				if err := tries.TryLock(ctx); err == nil {
					require.NoError(t, tries.Unlock(ctx))
				}
				if release, err := other.take(ctx); err == nil {
					require.ErrorIs(t, tries.TryLock(ctx), relock.ErrKeyConflict)
					release()
					got++
				}
			}
		})
	}
}

// requireWaiter waits until a call waits for the lock.
func requireWaiter(t *testing.T, client *relock.Client) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		info, err := client.Inspect(t.Context(), "k")
		require.NoError(t, err)
		return info.Waiting == 1
	}, "nobody waits")
}
