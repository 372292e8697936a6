package acquire_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// privilegeUse does what a privilege is for, as a user whose permissions are
// tried. Another client may do everything.
type privilegeUse struct {
	start func(t testing.TB) []*redistest.Server // nil: one
	opts  []relock.ClientOption
	use   func(b *privilegeBench, app, other []*relock.Client) error
}

// privilegeUses are those of the names in the README's table.
func privilegeUses() map[string]privilegeUse {
	return map[string]privilegeUse{
		"NewRWLock":             {use: readAndWrite},
		"NewMultiLock":          {use: takeAll(multiOf)},
		"NewRedLock":            {start: threeServers, use: takeAll(redOf)},
		"WithFencing":           {use: takeAll(twoKinds, relock.WithFencing())},
		"WithReplicas":          {start: withReplica, use: takeAll(twoKinds, locktest.OneReplica)},
		"WithDatabase":          {opts: []relock.ClientOption{relock.WithDatabase(1)}, use: takeAll(twoKinds)},
		"Inspect":               {use: inspectAll(twoContended)},
		"Inspect NewRWLock":     {use: inspectAll(rwContended)},
		"List":                  {use: listAll(twoKinds)},
		"List NewRWLock":        {use: listAll(rwOf)},
		"ForceUnlock":           {use: forceAll(twoContended)},
		"ForceUnlock NewRWLock": {use: forceAll(rwContended)},
	}
}

type privilegeBench struct {
	testing.TB
	privilegeUse

	allow   func(t testing.TB, s *redistest.Server, rules ...string)
	servers []*redistest.Server
	log     *locktest.LogBuffer
}

func newPrivilegeBench(t testing.TB, use privilegeUse) *privilegeBench {
	b := &privilegeBench{TB: t, privilegeUse: use, allow: locktest.ReadmePrivileges(t).Allow}
	if use.start == nil {
		b.servers = []*redistest.Server{redistest.Start(t)}
	} else {
		b.servers = use.start(t)
	}
	return b
}

// try makes a user with these rules and acts as one.
func (b *privilegeBench) try(rules []string) error {
	b.Helper()
	b.log = &locktest.LogBuffer{}
	var app, other []*relock.Client
	for _, s := range b.servers {
		s.Do(b, "FLUSHALL")
		b.allow(b, s, rules...)
		s.Do(b, "ACL", "LOG", "RESET")
		app = append(app, b.client(s, "password", relock.WithUsername("app"), b.log.Option()))
		other = append(other, b.client(s, ""))
	}
	defer func() {
		for _, c := range append(app, other...) {
			require.NoError(b, c.Close())
		}
	}()
	return b.use(b, app, other)
}

func (b *privilegeBench) client(s *redistest.Server, password string, opts ...relock.ClientOption) *relock.Client {
	b.Helper()
	c, err := relock.NewClient(s.Network, s.Address, password, append(opts, b.opts...)...)
	require.NoError(b, err)
	return c
}

// requireNothingDenied checks that the servers have refused nothing, also
// within scripts, and that the client has logged no refusal.
func (b *privilegeBench) requireNothingDenied() {
	b.Helper()
	for _, s := range b.servers {
		entries, err := redis.Values(s.Do(b, "ACL", "LOG"), nil)
		require.NoError(b, err)
		require.Empty(b, entries, "denied: %s", entries)
	}
	require.NotContains(b, b.log.String(), relock.ErrDenied.Error())
}

func (b *privilegeBench) requireDenied(what string, rules []string) {
	b.Helper()
	err := b.try(rules)
	require.ErrorIs(b, err, relock.ErrDenied, "without %s", what)
	require.False(b, relock.IsRetryableErr(err), "without %s: %v", what, err)
}

func second[T any](_ T, err error) error { return err }

func threeServers(t testing.TB) []*redistest.Server { return locktest.NewRedServers(t, 3) }

func withReplica(t testing.TB) []*redistest.Server {
	return []*redistest.Server{locktest.NewReplicated(t).Master}
}

// locksOf makes locks of different names.
type locksOf func(c []*relock.Client, opts ...relock.LockOption) []locktest.Acquirer

func twoKinds(c []*relock.Client, opts ...relock.LockOption) []locktest.Acquirer {
	return []locktest.Acquirer{relock.NewRedisLock("p", c[0], opts...), relock.NewReentrantLock("r", c[0], opts...)}
}

func rwOf(c []*relock.Client, opts ...relock.LockOption) []locktest.Acquirer {
	return []locktest.Acquirer{relock.NewRWLock("w", c[0], opts...), relock.NewRWLock("s", c[0], opts...).RLocker().(locktest.AnyLock)}
}

func multiOf(c []*relock.Client, opts ...relock.LockOption) []locktest.Acquirer {
	return []locktest.Acquirer{relock.NewMultiLock([]string{"m", "n"}, c[0], opts...)}
}

func redOf(c []*relock.Client, opts ...relock.LockOption) []locktest.Acquirer {
	l := relock.NewRedLock("q", c, append(opts, relock.WithMaxLease(locktest.FaultLease), relock.WithWatchdog(locktest.FaultLease))...)
	locktest.Target(l).Settings.MaxLease = locktest.RedLease // the servers are new, and remember all
	return []locktest.Acquirer{l}
}

// takeAll acquires each lock, extends its lease and releases it.
func takeAll(locks locksOf, opts ...relock.LockOption) func(*privilegeBench, []*relock.Client, []*relock.Client) error {
	return func(b *privilegeBench, app, _ []*relock.Client) (err error) {
		for _, l := range locks(app, opts...) {
			h, failed := l.Acquire(b.Context())
			if failed == nil {
				failed = errors.Join(h.Extend(b.Context(), locktest.RedLease), h.Unlock(b.Context()))
			}
			err = errors.Join(err, failed)
		}
		return err
	}
}

// readAndWrite acquires levels of a read/write lock, and has a call wait.
func readAndWrite(b *privilegeBench, app, other []*relock.Client) error {
	me, block := locktest.As(b, "me"), relock.WithBlockTimeout(10*time.Second)
	l := relock.NewRWLock("w", app[0], block)
	if err := errors.Join(l.RLock(me), l.RLock(me), l.Lock(me)); err != nil {
		return err
	}
	read := b.waitFor(other[0], "w", func() error { return second(relock.NewRWLock("w", other[0], block).RAcquire(locktest.As(b, "other"))) })
	if err := errors.Join(l.Unlock(me), l.RUnlock(me), l.RUnlock(me)); err != nil {
		return err
	}
	return testkit.ResultWithin(b, read, 10*time.Second)
}

// waitForMany has a MultiLock wait for one of its keys.
func waitForMany(b *privilegeBench, app, other []*relock.Client) error {
	held, err := relock.NewRedisLock("n", other[0]).Acquire(b.Context())
	require.NoError(b, err)
	l := relock.NewMultiLock([]string{"m", "n"}, app[0], relock.WithBlockTimeout(10*time.Second))
	done := b.waitFor(app[0], "n", func() error { return l.Do(b.Context(), locktest.Nothing) })
	require.NoError(b, held.Unlock(b.Context()))
	return testkit.ResultWithin(b, done, 10*time.Second)
}

// waitForNodes has a RedLock wait until it is notified.
func waitForNodes(b *privilegeBench, app, other []*relock.Client) error {
	held, err := redOf(other)[0].Acquire(b.Context())
	require.NoError(b, err)
	done := testkit.Async(b, func() error {
		h, err := redOf(app, relock.WithBlockTimeout(10*time.Second))[0].Acquire(b.Context())
		if err == nil {
			err = h.Unlock(b.Context())
		}
		return err
	})
	testkit.Eventually(b, 10*time.Second, func() bool { return locktest.Engine(app[0]).Queue.State().Subscribed || len(done) > 0 }, "waits")
	require.NoError(b, held.Unlock(b.Context()))
	return testkit.ResultWithin(b, done, 10*time.Second)
}

// waitFor begins a call that waits for a lock, and returns when it is queued or
// has ended.
func (b *privilegeBench) waitFor(c *relock.Client, key string, f func() error) <-chan error {
	b.Helper()
	done := testkit.Async(b, f)
	testkit.Eventually(b, 10*time.Second, func() bool {
		return b.servers[0].Do(b, "ZCARD", locktest.KeyOf(c, key)+":q") == int64(1) || len(done) > 0
	}, "waits")
	return done
}

// contended is a lock that one client holds and another waits for. Neither is
// the user whose permissions are tried.
type contended struct {
	key        string
	hold, wait locktest.Acquirer
}

func twoContended(c *relock.Client) []contended {
	fair, block := relock.WithFair(), relock.WithBlockTimeout(10*time.Second)
	return []contended{
		{"p", relock.NewRedisLock("p", c, fair), relock.NewRedisLock("p", c, fair, block)},
		{"r", relock.NewReentrantLock("r", c, fair), relock.NewReentrantLock("r", c, fair, block)},
	}
}

func rwContended(c *relock.Client) []contended {
	fair, block := relock.WithFair(), relock.WithBlockTimeout(10*time.Second)
	return []contended{
		{"w", relock.NewRWLock("w", c, fair), relock.NewRWLock("w", c, fair, block)},
		{"s", relock.NewRWLock("s", c, fair).RLocker().(locktest.AnyLock), relock.NewRWLock("s", c, fair, block)},
	}
}

// eachContended holds each lock, and has a call wait for it while f runs.
func eachContended(b *privilegeBench, all []contended, c *relock.Client, f func(key string) error) (err error) {
	for _, one := range all {
		held, failed := one.hold.Acquire(locktest.As(b, "holder"))
		require.NoError(b, failed)
		done := b.waitFor(c, one.key, func() error {
			h, err := one.wait.Acquire(locktest.As(b, "waiter"))
			if err != nil {
				return err
			}
			return h.Unlock(b.Context())
		})
		err = errors.Join(err, f(one.key))
		if failed := held.Unlock(b.Context()); failed != nil {
			require.ErrorIs(b, failed, relock.ErrLockLost)
		}
		require.NoError(b, testkit.ResultWithin(b, done, 10*time.Second))
	}
	return err
}

// inspectAll inspects locks that are held and waited for, and one that is free.
func inspectAll(locks func(*relock.Client) []contended) func(*privilegeBench, []*relock.Client, []*relock.Client) error {
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
		for _, l := range locks(other) {
			require.NoError(b, second(l.Acquire(b.Context())))
		}
		found := 0
		for _, failed := range app[0].List(b.Context(), "*") {
			found++
			err = errors.Join(err, failed)
		}
		if err == nil {
			require.Equal(b, 2, found)
		}
		return err
	}
}
