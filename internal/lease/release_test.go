package lease_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// From the moment that a release is sent, no renewal is.
func TestNoRenewalAfterTheRelease(t *testing.T) {
	t.Parallel()
	eachKind(t, map[string]kindTest{"": func(c *locktest.FaultBench, kind string, r requests) {
		h := c.Take(kind, relock.WithWatchdog(30*time.Second))
		c.Proxy.On(r.release, faults.Every, faults.ErrorLine(loading))
		result := testkit.Async(c, func() error { return h.Unlock(c.Context()) })
		require.True(c, c.Proxy.Await(r.release, 1, testkit.Patience))
		leaseOf(h).RenewNow()
		require.ErrorIs(c, testkit.ResultWithin(c, result, testkit.Patience), relock.ErrUnconfirmed)
		require.Zero(c, c.Proxy.Count(r.renew))
	}})
}

// A release that finds nothing may stand for an earlier copy that has done the
// work, but only while the lease cannot have ended.
func TestUnlockAfterValidUntilIsNoSuccess(t *testing.T) {
	t.Parallel()
	const lease = 2400 * time.Millisecond
	eachKind(t, map[string]kindTest{"": func(c *locktest.FaultBench, kind string, r requests) {
		h := c.Take(kind, relock.WithExpiry(lease))
		c.Proxy.On(r.release, 1, faults.DropRequest)
		<-time.After(time.Until(h.ValidUntil()) - lease/6) // the first copy has this time for its answer
		result := testkit.Async(c, func() error { return h.Unlock(c.Context()) })
		c.Proxy.Await(r.release, 1, testkit.Patience) // none is sent if the lease expired before the Unlock
		c.Server.Do(c, "DEL", c.Key)
		err := testkit.ResultWithin(c, result, testkit.Patience)
		require.Error(c, err)
		if !errors.Is(err, relock.ErrUnconfirmed) {
			require.ErrorIs(c, err, relock.ErrLockLost)
		}
	}})
}

const (
	tryAgain = "TRYAGAIN Multiple keys request during rehashing of slot"
	noKeys70 = "NOPERM this user has no permissions to access one of the keys used as arguments" // Redis 6.2 and 7.0
	noKeys72 = "NOPERM No permissions to access a key"                                           // and newer
)

// A Cluster that moves the slot of a lock refuses scripts that name three keys
// of it, as does a server that permits only the lock's.
func TestReleaseWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	tests := map[string]kindTest{"in the background": func(c *locktest.FaultBench, kind string, r requests) {
		h := c.Take(kind)
		c.Proxy.On(r.release, 1, faults.DropRequest)
		c.Proxy.On(r.release, 2, faults.ErrorLine(tryAgain))
		require.NoError(c, h.Unlock(c.Context()))
		locktest.RequireFree(c, c.Server, c.Client, locktest.FaultKey)
		require.GreaterOrEqual(c, c.Proxy.Count(r.release), 3, "after the second, for the lock alone")
	}}
	for _, refusal := range []string{tryAgain, noKeys70, noKeys72} {
		tests[refusal] = func(c *locktest.FaultBench, kind string, r requests) {
			c.Proxy.On(r.release, 1, faults.ErrorLine(refusal))
			h := c.Take(kind)
			require.NoError(c, h.Unlock(c.Context()))
			locktest.RequireFree(c, c.Server, c.Client, locktest.FaultKey)
			require.Equal(c, 2, c.Proxy.Count(r.release), "the second for the lock alone")
		}
	}
	eachKind(t, tests, relock.WithCommandTimeout(locktest.FaultPatience))
}

// A user who may touch only the lock, as one without a queue needs no more,
// locks and unlocks.
func TestReleaseWithTheLocksKeyAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.AsUser(t, s, "narrow", "relock:", []any{"~relock:{k}", "&*", "+@all"})
	for name, newLock := range locktest.Kinds {
		l := newLock("k", c)
		require.NoError(t, l.Lock(t.Context()), name)
		require.NoError(t, l.Unlock(t.Context()), name)
		locktest.RequireFree(t, s, c, "k")
		require.ErrorIs(t, newLock("other", c).Lock(t.Context()), relock.ErrDenied)
	}
}

// A release that was refused for want of permission is sent again, as
// ErrUnconfirmed promises.
func TestDeniedReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.AsUser(t, s, "user", "test:", []any{"~*", "+@all"})
	h := locktest.Take(t, relock.NewRedisLock("lock", c).Acquire)
	s.Do(t, "ACL", "SETUSER", "user", "-evalsha", "-eval")
	locktest.RequireIs(t, h.Unlock(t.Context()), relock.ErrUnconfirmed, relock.ErrDenied)
	locktest.RequireHeld(t, s, c, "lock")
	s.Do(t, "ACL", "SETUSER", "user", "+@all")
	locktest.EventuallyWithin(t, 5*time.Second,
		func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "lock")) == int64(0) }, "not released")
}

// Without the permissions to set an expiry and to delete, no lock may stay
// forever.
func TestNoPermissionForAnExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, missing := range [][]any{{"-pexpire"}, {"-pexpire", "-del"}} {
		c := locktest.NewTestClient(t, s)
		s.Do(t, "ACL", append([]any{"SETUSER", "default", "+@all"}, missing...)...)
		require.ErrorIs(t, relock.NewReentrantLock("k", c, relock.WithExpiry(3*time.Second)).Lock(t.Context()),
			relock.ErrDenied)
		require.NotEqual(t, time.Duration(-1), locktest.PTTL(t, s, c, "k"), "%v", missing)
	}
}

// What an Unlock sends again, and the logins before it, share one limit.
func TestUnlockKeepsItsLimit(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	s := redistest.Start(t, "--requirepass", "secret")
	proxy := faults.Start(t, s.Network, s.Address)
	c, err := relock.NewClient(proxy.Network, proxy.Address,
		"secret", relock.WithCommandTimeout(limit), relock.WithMaxIdle(0))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	h := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	scripts := func(args []string) bool { return strings.HasPrefix(args[0], "EVAL") }
	proxy.On(faults.Command("AUTH"), faults.Every, faults.Delay(limit*9/20))
	proxy.On(scripts, faults.Every, faults.Delay(limit*9/20)) // NOSCRIPT first, then the answer
	watch := testkit.NewStopwatch(t)
	err = h.Unlock(t.Context())
	watch.Within(limit + limit/8)
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
}

// A late copy of an acquire takes the key for the lease that it asks for. So
// the releases after it do not go on for as long as an Extend.
func TestExtendDoesNotProlongTheReleases(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		const length = 3 * time.Second
		e.answer = func(r driver.Request) (time.Duration, error) {
			if r.Cmd == "SET" {
				return 0, io.EOF
			}
			return 0, nil
		}
		h := e.take(t, lockspec.Plain, "k", watched(length))
		require.NoError(t, h.Extend(t.Context(), 24*time.Hour))
		require.NoError(t, h.Unlock())
		time.Sleep(length / 2)
		early := e.calls(nil)
		time.Sleep(3 * length / 2)
		late := e.calls(nil)
		require.Greater(t, late, early, "a late copy may come until the lease has ended")
		time.Sleep(time.Minute)
		require.Equal(t, late, e.calls(nil), "releases go on")
	})
}

// A release that is not answered before the lease ends is given up, and logged.
func TestGivenUpReleaseIsLogged(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var log locktest.LogBuffer
		e := newEngine(t, &log, lease.Hooks{})
		h := e.take(t, lockspec.Plain, "k", fixed(2*time.Second))
		e.answer = func(driver.Request) (time.Duration, error) { return time.Hour, nil }
		require.ErrorIs(t, h.Unlock(), errs.ErrUnconfirmed)
		testkit.Eventually(t, testkit.Patience,
			func() bool { return strings.Contains(log.String(), "given up") }, "it is logged")
	})
}

// Extend says which key has failed, also when others were left out because of
// it.
func TestMultiLockExtendNamesTheKey(t *testing.T) {
	t.Parallel()
	c := locktest.NewFaultBench(t, locktest.NewServerWithScripts(t))
	keys := locktest.Numbered("key", 100)
	// one key is not renewed
	h := locktest.Take(t, relock.NewMultiLock(keys, c.Client, relock.WithWatchdog(time.Minute)).Acquire)
	bad := locktest.KeyOf(c.Client, keys[40])
	c.Proxy.On(func(args []string) bool { return faults.Script(script.Renew.SHA)(args) && args[3] == bad }, faults.Every,
		faults.ErrorLine("LOADING soon"))
	for range 10 {
		err := h.Extend(t.Context(), 2*time.Minute)
		require.ErrorContains(t, err, "LOADING")
		require.ErrorContains(t, err, `"`+keys[40]+`"`)
		require.NotContains(t, err.Error(), "not begun")
	}
	require.NoError(t, h.Unlock(t.Context()))
}
