package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// privilegeUse does what a privilege is for, as a user whose permissions are
// tried. Another client may do everything.
type privilegeUse struct {
	start func(t testing.TB) []*redistest.Server // nil: one
	opts  []relock.ClientOption
	use   func(b *privilegeBench, app, other []*relock.Client) error
}

// privilegeUses are those of the names in the table of docs/operations.md.
func privilegeUses() map[string]privilegeUse {
	return map[string]privilegeUse{
		"NewRWLock":                          {use: readAndWrite},
		"NewSemaphore":                       {use: takePermits},
		"NewMultiLock":                       {use: takeAll(multiOf)},
		"NewRedLock":                         {start: threeServers, use: takeAll(redOf)},
		"WithFencing":                        {use: takeAll(twoKinds, relock.WithFencing())},
		"WithReplicas":                       {start: withReplica, use: takeAll(twoKinds, locktest.OneReplica)},
		"WithDatabase":                       {opts: []relock.ClientOption{relock.WithDatabase(1)}, use: takeAll(twoKinds)},
		"Inspect":                            {use: inspectAll(twoContended)},
		"Inspect NewRWLock NewSemaphore":     {use: inspectAll(setContended)},
		"List":                               {use: listAll(twoKinds)},
		"List NewRWLock NewSemaphore":        {use: listAll(setsOf)},
		"ForceUnlock":                        {use: forceAll(twoContended)},
		"ForceUnlock NewRWLock NewSemaphore": {use: forceAll(setContended)},
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
	b := &privilegeBench{TB: t, privilegeUse: use, allow: locktest.ReadPrivileges(t).Allow}
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
		s.Do(b, "SCRIPT", "FLUSH")
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
	return locktest.CloseLater(b)(relock.NewClient(s.Network, s.Address, password, append(opts, b.opts...)...))
}

// requireNothingDenied checks that the servers have refused nothing, also
// within scripts, and that the client has logged no refusal. Ping ignores those
// of INFO and CLUSTER INFO.
func (b *privilegeBench) requireNothingDenied() {
	b.Helper()
	for _, s := range b.servers {
		entries, err := redis.Values(s.Do(b, "ACL", "LOG"), nil)
		require.NoError(b, err)
		entries = slices.DeleteFunc(entries, func(entry any) bool {
			fields, err := redis.Values(entry, nil)
			require.NoError(b, err)
			return slices.ContainsFunc(fields, func(field any) bool {
				return slices.Contains([]string{"info", "cluster|info"}, fmt.Sprintf("%s", field))
			})
		})
		require.Empty(b, entries, "denied: %s", entries)
	}
	require.NotContains(b, b.log.String(), relock.ErrDenied.Error())
}

// requireDenied checks that each error is that of a missing permission, and
// that there is one.
func (b *privilegeBench) requireDenied(what string, rules []string) {
	b.Helper()
	err := b.try(rules)
	require.Error(b, err, "%s is not needed", what)
	for _, err := range joined(err) {
		require.ErrorIs(b, err, relock.ErrDenied, "without %s", what)
		require.False(b, relock.IsRetryableErr(err), "without %s: %v", what, err)
	}
}

// joined returns the errors of errors.Join.
func joined(err error) (all []error) {
	if reflect.TypeOf(err) != reflect.TypeOf(errors.Join(errors.ErrUnsupported)) {
		return []error{err}
	}
	for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
		all = append(all, joined(one)...)
	}
	return all
}

// lockAndUnlock does what needs no waiting, with each kind and nested, and
// checks after each step that no key would stay forever.
func lockAndUnlock(b *privilegeBench, app, _ []*relock.Client) (err error) {
	step := func(failed error) bool {
		err = errors.Join(err, failed)
		keys, scanned := redis.Strings(b.servers[0].Do(b, "KEYS", "*"), nil)
		require.NoError(b, scanned)
		for _, key := range keys {
			require.NotEqual(b, int64(-1), b.servers[0].Do(b, "PTTL", key), "%s would stay for ever", key)
		}
		return failed == nil
	}
	use := func(l locktest.AnyLock, meanwhile func()) {
		if h, failed := l.Acquire(b.Context()); step(failed) {
			meanwhile()
			step(h.Extend(b.Context(), 40*time.Second))
			step(h.Unlock(b.Context()))
		}
	}
	step(app[0].Ping(b.Context()))
	for kind, newLock := range locktest.Kinds {
		l := newLock(kind, app[0])
		use(l, func() {
			if kind == "ReentrantLock" {
				use(l, func() {})
			} else if failed := l.TryLock(b.Context()); !errors.Is(failed, relock.ErrLockAcquiredByOthers) {
				step(failed)
			}
		})
		use(newLock(kind+", kept", app[0], relock.WithMinHold(time.Second)), func() {})
	}
	return err
}

// handOffInEachMode hands locks off among waiters, which log nothing and leave
// nothing. It returns what went wrong in the first mode in which something did.
func handOffInEachMode(b *privilegeBench, app, _ []*relock.Client) error {
	for range 2 {
		c := b.client(b.servers[0], "password", relock.WithUsername("app"), b.log.Option())
		defer func() { require.NoError(b, c.Close()) }()
		app = append(app, c)
	}
	for _, m := range locktest.QueueModes {
		err := b.handOff(m, app[0], app[1], app[2])
		if text := b.log.String(); text != "" {
			err = errors.Join(err, errors.New(text))
		}
		if err != nil {
			return err
		}
	}
	watch, start := testkit.NewStopwatch(b), time.Now()
	for b.servers[0].Do(b, "DBSIZE") != int64(0) {
		took := time.Since(start)
		if watch.Judge(took, time.Second) != nil || took > testkit.Patience {
			return fmt.Errorf("left: %s", b.servers[0].Do(b, "KEYS", "*"))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// patience is how long a step may take that a missing permission may hold up.
const patience = 8 * time.Second

// handOff has one client hand a lock off to another, while the third gives up.
func (b *privilegeBench) handOff(m locktest.QueueMode, holder, waiter, other *relock.Client) error {
	opts := append(locktest.PolledSeldom(), relock.WithBlockTimeout(patience)) // without a message, it ends by that
	h, err := m.Lock(holder, opts...).TryAcquire(b.Context())
	if err != nil {
		return err
	}
	granted := make(chan error, 1)
	ended := b.waitFor(waiter, locktest.QueueKey, func() error {
		next, err := m.Lock(waiter, opts...).Acquire(b.Context())
		granted <- err
		if err != nil {
			return nil
		}
		return next.Unlock(b.Context())
	})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	left := testkit.Async(b, func() error { return m.Lock(other, relock.WithBlockTimeout(patience)).Lock(ctx) })
	b.awaitPolls(other, left)
	cancel()
	if err = testkit.ResultWithin(b, left, testkit.Patience); errors.Is(err, relock.ErrLockAcquiredByOthers) {
		err = nil
	}
	key, s := locktest.KeyOf(waiter, locktest.QueueKey), b.servers[0]
	if first, failed := redis.Strings(s.Do(b, "ZRANGE", key+":q", 0, 0), nil); failed == nil && len(first) == 1 {
		before := locktest.Calls(b, s, "evalsha")
		if s.Do(b, "PUBLISH", "relock:"+locktest.Engine(waiter).Identity.ID, locktest.HintOf(first[0])+" "+key) == int64(1) {
			testkit.Eventually(b, testkit.Patience, func() bool { return locktest.Calls(b, s, "evalsha") > before },
				"it claims, in vain")
		}
	}
	err = errors.Join(err, h.Unlock(b.Context()))
	err = errors.Join(err, testkit.ResultWithin(b, granted, testkit.Patience))
	return errors.Join(err, testkit.ResultWithin(b, ended, testkit.Patience))
}

// awaitPolls waits until the client has polled for a call, and has had the
// answer before it polls again, or cannot.
func (b *privilegeBench) awaitPolls(c *relock.Client, call <-chan error) {
	b.Helper()
	beats := map[string]bool{}
	testkit.Eventually(b, testkit.Patience, func() bool {
		beat, _ := redis.String(b.servers[0].Do(b, "HGET", locktest.KeyOf(c, locktest.QueueKey)+
			":b", locktest.Engine(c).Identity.ID), nil)
		if beat != "" {
			beats[beat] = true
		}
		return len(beats) > 2 || len(call) > 0 || b.log.String() != ""
	}, "polls")
}

func second[T any](_ T, err error) error { return err }

func threeServers(t testing.TB) []*redistest.Server { return locktest.NewRedServers(t, 3) }

func withReplica(t testing.TB) []*redistest.Server {
	return []*redistest.Server{locktest.NewReplicated(t).Master}
}

// locksOf makes locks of different names.
type locksOf func(c []*relock.Client, opts ...relock.LockOption) []locktest.AnyLock

func kindsOf(kinds ...string) locksOf {
	return func(c []*relock.Client, opts ...relock.LockOption) (all []locktest.AnyLock) {
		for _, kind := range kinds {
			all = append(all, locktest.AllKinds[kind](kind, c[0], opts...))
		}
		return all
	}
}

var (
	twoKinds = kindsOf("RedisLock", "ReentrantLock")
	rwOf     = kindsOf("RWLock", "RWLock, reading")
	setsOf   = kindsOf("RWLock", "RWLock, reading", "Semaphore")
	multiOf  = kindsOf("MultiLock")
)

func redOf(c []*relock.Client, opts ...relock.LockOption) []locktest.AnyLock {
	return []locktest.AnyLock{locktest.NewPatientRedLock("q", c, opts...)}
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

// readAndWrite acquires levels of a read/write lock, which are renewed, and has
// calls wait until they are notified.
func readAndWrite(b *privilegeBench, app, other []*relock.Client) error {
	me, opts := locktest.As(b, "me"), []relock.LockOption{relock.WithBlockTimeout(testkit.Patience), relock.WithFair()}
	l := relock.NewRWLock("w", app[0], opts...)
	h, err := l.RAcquire(me)
	if err := errors.Join(err, l.RLock(me), l.Lock(me)); err != nil {
		return err
	}
	read := b.waitFor(other[0], "w", func() error {
		return second(relock.NewRWLock("w", other[0], opts...).RAcquire(locktest.As(b, "other")))
	})
	until := h.ValidUntil()
	locktest.RenewNow(h)
	testkit.Eventually(b, testkit.Patience, func() bool { return h.ValidUntil().After(until) || h.Err() != nil },
		"renewed, or refused")
	if err := errors.Join(h.Err(), l.Unlock(me), l.RUnlock(me), l.RUnlock(me)); err != nil {
		return err
	}
	if err := testkit.ResultWithin(b, read, testkit.Patience); err != nil {
		return err
	}
	write := testkit.Async(b, func() error { return l.Do(me, locktest.Nothing) })
	testkit.Eventually(b, testkit.Patience, func() bool {
		return app[0].Stats().Waiting == 1 && locktest.IsSubscribed(app[0], "w") || len(write) > 0
	}, "waits")
	require.NoError(b, relock.NewRWLock("w", other[0]).RUnlock(locktest.As(b, "other")))
	return testkit.ResultWithin(b, write, testkit.Patience)
}

// takePermits takes the permits of a semaphore side by side, and has a call
// wait until it is notified.
func takePermits(b *privilegeBench, app, _ []*relock.Client) error {
	l := relock.NewSemaphore("s", 2, app[0], relock.WithBlockTimeout(testkit.Patience), relock.WithFair())
	first, err := l.Acquire(b.Context())
	if err != nil {
		return err
	}
	if err := first.Extend(b.Context(), 40*time.Second); err != nil {
		return err
	}
	next, err := l.Acquire(b.Context())
	if err != nil {
		return err
	}
	done := b.waitFor(app[0], "s", func() error { return l.Do(b.Context(), locktest.Nothing) })
	err = next.Unlock(b.Context())
	return errors.Join(err, testkit.ResultWithin(b, done, testkit.Patience), first.Unlock(b.Context()))
}

// waitForMany has a MultiLock wait for one of its keys.
func waitForMany(b *privilegeBench, app, other []*relock.Client) error {
	held, err := relock.NewRedisLock("n", other[0]).Acquire(b.Context())
	require.NoError(b, err)
	l := relock.NewMultiLock([]string{"m", "n"}, app[0], relock.WithBlockTimeout(testkit.Patience))
	done := b.waitFor(app[0], "n", func() error { return l.Do(b.Context(), locktest.Nothing) })
	require.NoError(b, held.Unlock(b.Context()))
	return testkit.ResultWithin(b, done, testkit.Patience)
}

// waitForNodes has a RedLock wait until it is notified.
func waitForNodes(b *privilegeBench, app, other []*relock.Client) error {
	held, err := redOf(other)[0].Acquire(b.Context())
	require.NoError(b, err)
	l := redOf(app, relock.WithBlockTimeout(testkit.Patience))[0]
	done := testkit.Async(b, func() error { return errors.Join(l.Lock(b.Context()), l.Unlock(b.Context())) })
	subscribed := func() bool {
		return slices.ContainsFunc(app, func(c *relock.Client) bool {
			channel := "relock:" + locktest.Engine(c).Identity.ID
			server := b.servers[slices.Index(app, c)]
			return server.Do(b, "PUBSUB", "NUMSUB", channel).([]any)[1] == int64(1)
		})
	}
	// On a busy machine, held may have two of the nodes.
	testkit.Eventually(b, testkit.Patience, func() bool { return subscribed() || len(done) > 0 }, "waits")
	require.NoError(b, held.Unlock(b.Context()))
	return testkit.ResultWithin(b, done, testkit.Patience)
}

// waitFor begins a call that waits for a lock, and returns when it is queued or
// has ended.
func (b *privilegeBench) waitFor(c *relock.Client, key string, f func() error) <-chan error {
	b.Helper()
	done := testkit.Async(b, f)
	testkit.Eventually(b, testkit.Patience, func() bool {
		return b.servers[0].Do(b, "ZCARD", locktest.KeyOf(c, key)+":q") == int64(1) || len(done) > 0
	}, "waits")
	return done
}
