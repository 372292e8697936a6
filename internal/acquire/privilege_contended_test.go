package acquire_test

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// contended is a lock that one client holds and another waits for. Neither is
// the user whose permissions are tried.
type contended struct {
	key        string
	hold, wait locktest.AnyLock
}

var (
	twoContended = contendedOf(map[string]string{"RedisLock": "RedisLock", "ReentrantLock": "ReentrantLock"})
	setContended = contendedOf(map[string]string{
		"RWLock": "RWLock", "RWLock, reading": "RWLock", "Semaphore": "Semaphore",
	})
)

// contendedOf is for kinds that are held, and those that wait for them.
func contendedOf(kinds map[string]string) func(c *relock.Client) []contended {
	fair, block := relock.WithFair(), relock.WithBlockTimeout(10*time.Second)
	return func(c *relock.Client) (all []contended) {
		for held, waits := range kinds {
			all = append(all,
				contended{held, locktest.AllKinds[held](held, c, fair), locktest.AllKinds[waits](held, c, fair, block)})
		}
		return all
	}
}

// eachContended holds each lock, and has a call wait for it while f runs.
func eachContended(b *privilegeBench, all []contended, c *relock.Client, f func(key string) error) (err error) {
	for _, one := range all {
		held, failed := one.hold.Acquire(locktest.As(b, "holder"))
		require.NoError(b, failed)
		waiter := locktest.As(b, "waiter")
		done := b.waitFor(c, one.key, func() error { return errors.Join(one.wait.Lock(waiter), one.wait.Unlock(waiter)) })
		err = errors.Join(err, f(one.key))
		if failed := held.Unlock(b.Context()); failed != nil {
			require.ErrorIs(b, failed, relock.ErrLockLost)
		}
		require.NoError(b, testkit.ResultWithin(b, done, testkit.Patience))
	}
	return err
}

// inspectAll inspects locks that are held and waited for, and one that is free.
func inspectAll(
	locks func(*relock.Client) []contended,
) func(*privilegeBench, []*relock.Client, []*relock.Client) error {
	return func(b *privilegeBench, app, other []*relock.Client) error {
		err := eachContended(b, locks(other[0]), other[0], func(key string) error {
			info, err := app[0].Inspect(b.Context(), key)
			if err == nil {
				require.Equal(b, relock.StateHeld, info.State)
				require.Len(b, info.Waiters, 1)
			}
			return err
		})
		return errors.Join(err, second(app[0].Inspect(b.Context(), "free")))
	}
}

// forceAll ends the holds of others, so that their waiters get the locks.
func forceAll(locks func(*relock.Client) []contended) func(*privilegeBench, []*relock.Client, []*relock.Client) error {
	return func(b *privilegeBench, app, other []*relock.Client) error {
		return eachContended(b, locks(other[0]), other[0], func(key string) error {
			return app[0].ForceUnlock(b.Context(), key, "test")
		})
	}
}

// listAll finds the locks that others hold.
func listAll(locks locksOf) func(*privilegeBench, []*relock.Client, []*relock.Client) error {
	return func(b *privilegeBench, app, other []*relock.Client) (err error) {
		all, found := locks(other), 0
		for _, l := range all {
			require.NoError(b, second(l.Acquire(b.Context())))
		}
		for _, failed := range app[0].List(b.Context(), "*") {
			found++
			err = errors.Join(err, failed)
		}
		if err == nil {
			require.Len(b, all, found)
		}
		return err
	}
}
