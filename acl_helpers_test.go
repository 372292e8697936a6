package relock

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// privilegeUse does what a privilege is for: as a user with permissions that are tried, beside another client that may do everything.
type privilegeUse struct {
	start func(t testing.TB) []*redistest.Server // nil: one
	opts  []ClientOption
	use   func(b *privilegeBench, app, other []*Client) error
}

// privilegeUses are those of the names in the README's table.
func privilegeUses() map[string]privilegeUse {
	return map[string]privilegeUse{
		"NewRWLock":             {use: readAndWrite},
		"NewMultiLock":          {use: takeAll(multiOf)},
		"NewRedLock":            {start: threeServers, use: takeAll(redOf)},
		"WithFencing":           {use: takeAll(twoKinds, WithFencing())},
		"WithReplicas":          {start: withReplica, use: takeAll(twoKinds, oneReplica)},
		"WithDatabase":          {opts: []ClientOption{WithDatabase(1)}, use: takeAll(twoKinds)},
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
	privileges
	privilegeUse
	servers []*redistest.Server
	log     *logBuffer
}

func newPrivilegeBench(t testing.TB, p privileges, use privilegeUse) *privilegeBench {
	b := &privilegeBench{TB: t, privileges: p, privilegeUse: use}
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
	b.log = &logBuffer{}
	var app, other []*Client
	for _, s := range b.servers {
		s.Do(b, "FLUSHALL")
		b.allow(b, s, rules...)
		s.Do(b, "ACL", "LOG", "RESET")
		app = append(app, b.client(s, "password", WithUsername("app"), b.log.option()))
		other = append(other, b.client(s, ""))
	}
	defer func() {
		for _, c := range append(app, other...) {
			require.NoError(b, c.Close())
		}
	}()
	return b.use(b, app, other)
}

func (b *privilegeBench) client(s *redistest.Server, password string, opts ...ClientOption) *Client {
	b.Helper()
	c, err := NewClient(s.Network, s.Address, password, append(opts, b.opts...)...)
	require.NoError(b, err)
	return c
}

// requireNothingDenied looks at what the servers have refused, also within scripts, and at what the client has logged.
func (b *privilegeBench) requireNothingDenied() {
	b.Helper()
	for _, s := range b.servers {
		entries, err := redis.Values(s.Do(b, "ACL", "LOG"), nil)
		require.NoError(b, err)
		require.Empty(b, entries, "denied: %s", entries)
	}
	require.NotContains(b, b.log.String(), ErrDenied.Error())
}

func (b *privilegeBench) requireDenied(what string, rules []string) {
	b.Helper()
	err := b.try(rules)
	require.ErrorIs(b, err, ErrDenied, "without %s", what)
	require.False(b, IsRetryableErr(err), "without %s: %v", what, err)
}

func threeServers(t testing.TB) []*redistest.Server { return newRedServers(t, 3) }

func withReplica(t testing.TB) []*redistest.Server {
	return []*redistest.Server{newReplicated(t).master}
}

// locksOf makes locks of different names.
type locksOf func(c []*Client, opts ...LockOption) []acquirer

func twoKinds(c []*Client, opts ...LockOption) []acquirer {
	return []acquirer{NewRedisLock("p", c[0], opts...), NewReentrantLock("r", c[0], opts...)}
}

func rwOf(c []*Client, opts ...LockOption) []acquirer {
	return []acquirer{NewRWLock("w", c[0], opts...), reader{NewRWLock("s", c[0], opts...)}}
}

func multiOf(c []*Client, opts ...LockOption) []acquirer {
	return []acquirer{NewMultiLock([]string{"m", "n"}, c[0], opts...)}
}

func redOf(c []*Client, opts ...LockOption) []acquirer {
	l := NewRedLock("q", c, append(opts, WithMaxLease(cellLease), WithWatchdog(cellLease))...)
	l.target.Settings.MaxLease = redLease // the servers are new, and remember all
	return []acquirer{l}
}

// takeAll takes each lock, lengthens its lease and gives it back.
func takeAll(locks locksOf, opts ...LockOption) func(*privilegeBench, []*Client, []*Client) error {
	return func(b *privilegeBench, app, _ []*Client) (err error) {
		for _, l := range locks(app, opts...) {
			h, failed := l.Acquire(b.Context())
			if failed == nil {
				failed = errors.Join(h.Extend(b.Context(), redLease), h.Unlock(b.Context()))
			}
			err = errors.Join(err, failed)
		}
		return err
	}
}

// readAndWrite goes through the levels of a read/write lock, and waits.
func readAndWrite(b *privilegeBench, app, other []*Client) error {
	me, block := as(b, "me"), WithBlockTimeout(10*time.Second)
	l := NewRWLock("w", app[0], block)
	if err := errors.Join(l.RLock(me), l.RLock(me), l.Lock(me)); err != nil {
		return err
	}
	read := b.waitFor(other[0], "w", func() error { return second(NewRWLock("w", other[0], block).RAcquire(as(b, "other"))) })
	if err := errors.Join(l.Unlock(me), l.RUnlock(me), l.RUnlock(me)); err != nil {
		return err
	}
	return testkit.ResultWithin(b, read, 10*time.Second)
}

// waitForMany has a MultiLock wait for one of its keys.
func waitForMany(b *privilegeBench, app, other []*Client) error {
	held, err := NewRedisLock("n", other[0]).Acquire(b.Context())
	require.NoError(b, err)
	l := NewMultiLock([]string{"m", "n"}, app[0], WithBlockTimeout(10*time.Second))
	done := b.waitFor(app[0], "n", func() error { return l.Do(b.Context(), noWork) })
	require.NoError(b, held.Unlock(b.Context()))
	return testkit.ResultWithin(b, done, 10*time.Second)
}

// waitForNodes has a RedLock wait until it is told.
func waitForNodes(b *privilegeBench, app, other []*Client) error {
	held, err := redOf(other)[0].Acquire(b.Context())
	require.NoError(b, err)
	done := testkit.Async(b, func() error {
		h, err := redOf(app, WithBlockTimeout(10*time.Second))[0].Acquire(b.Context())
		if err == nil {
			err = h.Unlock(b.Context())
		}
		return err
	})
	testkit.Eventually(b, 10*time.Second, func() bool { return app[0].engine.Queue.State().Subscribed || len(done) > 0 }, "waits")
	require.NoError(b, held.Unlock(b.Context()))
	return testkit.ResultWithin(b, done, 10*time.Second)
}

// waitFor begins something that waits for a lock, and returns when it stands in the queue, or has ended.
func (b *privilegeBench) waitFor(c *Client, key string, f func() error) <-chan error {
	b.Helper()
	done := testkit.Async(b, f)
	testkit.Eventually(b, 10*time.Second, func() bool { return b.servers[0].Do(b, "ZCARD", keyOf(c, key)+":q") == int64(1) || len(done) > 0 }, "waits")
	return done
}

// contended is a lock that one has and another wants, both of them others than the user whose permissions are tried.
type contended struct {
	key        string
	hold, wait acquirer
}

func twoContended(c *Client) []contended {
	fair, block := WithFair(), WithBlockTimeout(10*time.Second)
	return []contended{
		{"p", NewRedisLock("p", c, fair), NewRedisLock("p", c, fair, block)},
		{"r", NewReentrantLock("r", c, fair), NewReentrantLock("r", c, fair, block)},
	}
}

func rwContended(c *Client) []contended {
	fair, block := WithFair(), WithBlockTimeout(10*time.Second)
	return []contended{
		{"w", NewRWLock("w", c, fair), NewRWLock("w", c, fair, block)},
		{"s", reader{NewRWLock("s", c, fair)}, NewRWLock("s", c, fair, block)},
	}
}

// eachContended holds each lock and waits for it while f does something to it. What f leaves is given back.
func eachContended(b *privilegeBench, all []contended, c *Client, f func(key string) error) (err error) {
	for _, one := range all {
		held, failed := one.hold.Acquire(as(b, "holder"))
		require.NoError(b, failed)
		done := b.waitFor(c, one.key, func() error {
			h, err := one.wait.Acquire(as(b, "waiter"))
			if err != nil {
				return err
			}
			return h.Unlock(b.Context())
		})
		err = errors.Join(err, f(one.key))
		if failed := held.Unlock(b.Context()); failed != nil {
			require.ErrorIs(b, failed, ErrLockLost)
		}
		require.NoError(b, testkit.ResultWithin(b, done, 10*time.Second))
	}
	return err
}

// inspectAll looks at locks that are held and waited for, and at one that is free.
func inspectAll(locks func(*Client) []contended) func(*privilegeBench, []*Client, []*Client) error {
	return func(b *privilegeBench, app, other []*Client) error {
		err := eachContended(b, locks(other[0]), other[0], func(key string) error {
			info, err := app[0].Inspect(b.Context(), key)
			if err == nil {
				require.Equal(b, StateHeld, info.State)
				require.Len(b, info.Waiters, 1)
			}
			return err
		})
		return errors.Join(err, second(app[0].Inspect(b.Context(), "free")))
	}
}

// forceAll ends the holds of others, and hands their locks over to those who wait.
func forceAll(locks func(*Client) []contended) func(*privilegeBench, []*Client, []*Client) error {
	return func(b *privilegeBench, app, other []*Client) error {
		return eachContended(b, locks(other[0]), other[0], func(key string) error {
			return app[0].ForceUnlock(b.Context(), key, "test")
		})
	}
}

// listAll finds the locks that others hold.
func listAll(locks locksOf) func(*privilegeBench, []*Client, []*Client) error {
	return func(b *privilegeBench, app, other []*Client) (err error) {
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
