package locktest

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// PrivilegeUse does what a privilege is for: as a user with permissions that are tried, beside another client that may do everything.
type PrivilegeUse struct {
	Start func(t testing.TB) []*redistest.Server // nil: one
	opts  []relock.ClientOption
	Use   func(b *privilegeBench, app, other []*relock.Client) error
}

// PrivilegeUses are those of the names in the README's table.
func PrivilegeUses() map[string]PrivilegeUse {
	return map[string]PrivilegeUse{
		"NewRWLock":             {Use: readAndWrite},
		"NewMultiLock":          {Use: TakeAll(MultiOf)},
		"NewRedLock":            {Start: ThreeServers, Use: TakeAll(RedOf)},
		"WithFencing":           {Use: TakeAll(twoKinds, relock.WithFencing())},
		"WithReplicas":          {Start: withReplica, Use: TakeAll(twoKinds, OneReplica)},
		"WithDatabase":          {opts: []relock.ClientOption{relock.WithDatabase(1)}, Use: TakeAll(twoKinds)},
		"Inspect":               {Use: inspectAll(twoContended)},
		"Inspect NewRWLock":     {Use: inspectAll(rwContended)},
		"List":                  {Use: listAll(twoKinds)},
		"List NewRWLock":        {Use: listAll(RwOf)},
		"ForceUnlock":           {Use: forceAll(twoContended)},
		"ForceUnlock NewRWLock": {Use: forceAll(rwContended)},
	}
}

type privilegeBench struct {
	testing.TB
	privileges
	PrivilegeUse
	servers []*redistest.Server
	log     *LogBuffer
}

func NewPrivilegeBench(t testing.TB, p privileges, use PrivilegeUse) *privilegeBench {
	b := &privilegeBench{TB: t, privileges: p, PrivilegeUse: use}
	if use.Start == nil {
		b.servers = []*redistest.Server{redistest.Start(t)}
	} else {
		b.servers = use.Start(t)
	}
	return b
}

// Try makes a user with these rules and acts as one.
func (b *privilegeBench) Try(rules []string) error {
	b.Helper()
	b.log = &LogBuffer{}
	var app, other []*relock.Client
	for _, s := range b.servers {
		s.Do(b, "FLUSHALL")
		b.Allow(b, s, rules...)
		s.Do(b, "ACL", "LOG", "RESET")
		app = append(app, b.Client(s, "password", relock.WithUsername("app"), b.log.Option()))
		other = append(other, b.Client(s, ""))
	}
	defer func() {
		for _, c := range append(app, other...) {
			require.NoError(b, c.Close())
		}
	}()
	return b.Use(b, app, other)
}

func (b *privilegeBench) Client(s *redistest.Server, password string, opts ...relock.ClientOption) *relock.Client {
	b.Helper()
	c, err := relock.NewClient(s.Network, s.Address, password, append(opts, b.opts...)...)
	require.NoError(b, err)
	return c
}

// RequireNothingDenied looks at what the servers have refused, also within scripts, and at what the client has logged.
func (b *privilegeBench) RequireNothingDenied() {
	b.Helper()
	for _, s := range b.servers {
		entries, err := redis.Values(s.Do(b, "ACL", "LOG"), nil)
		require.NoError(b, err)
		require.Empty(b, entries, "denied: %s", entries)
	}
	require.NotContains(b, b.log.String(), relock.ErrDenied.Error())
}

func (b *privilegeBench) RequireDenied(what string, rules []string) {
	b.Helper()
	err := b.Try(rules)
	require.ErrorIs(b, err, relock.ErrDenied, "without %s", what)
	require.False(b, relock.IsRetryableErr(err), "without %s: %v", what, err)
}

func ThreeServers(t testing.TB) []*redistest.Server { return NewRedServers(t, 3) }

func withReplica(t testing.TB) []*redistest.Server {
	return []*redistest.Server{NewReplicated(t).Master}
}

// locksOf makes locks of different names.
type locksOf func(c []*relock.Client, opts ...relock.LockOption) []Acquirer

func twoKinds(c []*relock.Client, opts ...relock.LockOption) []Acquirer {
	return []Acquirer{relock.NewRedisLock("p", c[0], opts...), relock.NewReentrantLock("r", c[0], opts...)}
}

func RwOf(c []*relock.Client, opts ...relock.LockOption) []Acquirer {
	return []Acquirer{relock.NewRWLock("w", c[0], opts...), Reader{relock.NewRWLock("s", c[0], opts...)}}
}

func MultiOf(c []*relock.Client, opts ...relock.LockOption) []Acquirer {
	return []Acquirer{relock.NewMultiLock([]string{"m", "n"}, c[0], opts...)}
}

func RedOf(c []*relock.Client, opts ...relock.LockOption) []Acquirer {
	l := relock.NewRedLock("q", c, append(opts, relock.WithMaxLease(CellLease), relock.WithWatchdog(CellLease))...)
	Target(l).Settings.MaxLease = RedLease // the servers are new, and remember all
	return []Acquirer{l}
}

// TakeAll takes each lock, lengthens its lease and gives it back.
func TakeAll(locks locksOf, opts ...relock.LockOption) func(*privilegeBench, []*relock.Client, []*relock.Client) error {
	return func(b *privilegeBench, app, _ []*relock.Client) (err error) {
		for _, l := range locks(app, opts...) {
			h, failed := l.Acquire(b.Context())
			if failed == nil {
				failed = errors.Join(h.Extend(b.Context(), RedLease), h.Unlock(b.Context()))
			}
			err = errors.Join(err, failed)
		}
		return err
	}
}

// readAndWrite goes through the levels of a read/write lock, and waits.
func readAndWrite(b *privilegeBench, app, other []*relock.Client) error {
	me, block := As(b, "me"), relock.WithBlockTimeout(10*time.Second)
	l := relock.NewRWLock("w", app[0], block)
	if err := errors.Join(l.RLock(me), l.RLock(me), l.Lock(me)); err != nil {
		return err
	}
	read := b.WaitFor(other[0], "w", func() error { return Second(relock.NewRWLock("w", other[0], block).RAcquire(As(b, "other"))) })
	if err := errors.Join(l.Unlock(me), l.RUnlock(me), l.RUnlock(me)); err != nil {
		return err
	}
	return testkit.ResultWithin(b, read, 10*time.Second)
}

// WaitForMany has a MultiLock wait for one of its keys.
func WaitForMany(b *privilegeBench, app, other []*relock.Client) error {
	held, err := relock.NewRedisLock("n", other[0]).Acquire(b.Context())
	require.NoError(b, err)
	l := relock.NewMultiLock([]string{"m", "n"}, app[0], relock.WithBlockTimeout(10*time.Second))
	done := b.WaitFor(app[0], "n", func() error { return l.Do(b.Context(), NoWork) })
	require.NoError(b, held.Unlock(b.Context()))
	return testkit.ResultWithin(b, done, 10*time.Second)
}

// WaitForNodes has a RedLock wait until it is told.
func WaitForNodes(b *privilegeBench, app, other []*relock.Client) error {
	held, err := RedOf(other)[0].Acquire(b.Context())
	require.NoError(b, err)
	done := testkit.Async(b, func() error {
		h, err := RedOf(app, relock.WithBlockTimeout(10*time.Second))[0].Acquire(b.Context())
		if err == nil {
			err = h.Unlock(b.Context())
		}
		return err
	})
	testkit.Eventually(b, 10*time.Second, func() bool { return Engine(app[0]).Queue.State().Subscribed || len(done) > 0 }, "waits")
	require.NoError(b, held.Unlock(b.Context()))
	return testkit.ResultWithin(b, done, 10*time.Second)
}

// WaitFor begins something that waits for a lock, and returns when it stands in the queue, or has ended.
func (b *privilegeBench) WaitFor(c *relock.Client, key string, f func() error) <-chan error {
	b.Helper()
	done := testkit.Async(b, f)
	testkit.Eventually(b, 10*time.Second, func() bool { return b.servers[0].Do(b, "ZCARD", KeyOf(c, key)+":q") == int64(1) || len(done) > 0 }, "waits")
	return done
}

// contended is a lock that one has and another wants, both of them others than the user whose permissions are tried.
type contended struct {
	key        string
	hold, wait Acquirer
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
		{"s", Reader{relock.NewRWLock("s", c, fair)}, relock.NewRWLock("s", c, fair, block)},
	}
}

// eachContended holds each lock and waits for it while f does something to it. What f leaves is given back.
func eachContended(b *privilegeBench, all []contended, c *relock.Client, f func(key string) error) (err error) {
	for _, one := range all {
		held, failed := one.hold.Acquire(As(b, "holder"))
		require.NoError(b, failed)
		done := b.WaitFor(c, one.key, func() error {
			h, err := one.wait.Acquire(As(b, "waiter"))
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

// inspectAll looks at locks that are held and waited for, and at one that is free.
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
		return errors.Join(err, Second(app[0].Inspect(b.Context(), "free")))
	}
}

// forceAll ends the holds of others, and hands their locks over to those who wait.
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
			require.NoError(b, Second(l.Acquire(b.Context())))
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
