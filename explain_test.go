package relock_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// refusal returns the error of a wait that others did not let in. On a busy
// machine, a short wait may end before the server has answered.
func refusal(t testing.TB, wait func() error) (err error) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		err = wait()
		return errors.Is(err, relock.ErrLockAcquiredByOthers)
	}, "an answer within the wait")
	return err
}

// A conflict names what was found, and what was requested.
func TestConflictSaysWhatWasFound(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	ctx := t.Context()
	for _, l := range []relock.Mutex{
		relock.NewRedisLock("pf", c, relock.WithFair()), relock.NewRedisLock("pu", c),
		relock.NewReentrantLock("rf", c, relock.WithFair()),
		relock.NewReentrantLock("ru", c), relock.NewRWLock("wf", c, relock.WithFair()), relock.NewRWLock("wu", c),
		relock.NewMultiLock([]string{"m"}, c), locktest.NewPermits(2)("s", c),
	} {
		require.NoError(t, l.Lock(ctx))
	}
	s.Do(t, "LPUSH", locktest.KeyOf(c, "list"), "x")
	kept := relock.NewRedisLock("kept", c, relock.WithMinHold(time.Minute))
	require.NoError(t, errors.Join(kept.Lock(ctx), kept.Unlock(ctx)))

	other := relock.ContextWithOwner(ctx, "other")
	block, fair := relock.WithBlock(), relock.WithFair()
	for name, tt := range map[string]struct {
		ctx  context.Context
		lock relock.Mutex
		want string
	}{
		"plain on reentrant": {
			other, relock.NewRedisLock("ru", c), "held as a ReentrantLock, requested as a RedisLock",
		},
		"plain on reentrant, waiting": {
			other, relock.NewRedisLock("ru", c, block), "held as a ReentrantLock, requested as a RedisLock",
		},
		"plain on a reentrant fair one": {
			other, relock.NewRedisLock("rf", c), "held as a ReentrantLock, requested as a RedisLock",
		},
		"a Locker on reentrant": {
			other, relock.FromLocker(locktest.NewLocker(t, c), "ru"), "held as a ReentrantLock, requested as a Locker",
		},
		"reentrant on plain": {
			other, relock.NewReentrantLock("pu", c), "held as a RedisLock, requested as a ReentrantLock",
		},
		"plain on read/write": {other, relock.NewRedisLock("wf", c), "held as an RWLock, requested as a RedisLock"},
		"read/write on plain": {other, relock.NewRWLock("pf", c, fair), "held as a RedisLock, requested as an RWLock"},
		"plain on a list": {
			other, relock.NewRedisLock("list", c), "used by another program, requested as a RedisLock",
		},
		"reentrant on a kept one": {
			other, relock.NewReentrantLock("kept", c), "kept as a RedisLock, requested as a ReentrantLock",
		},
		"plain on a semaphore":   {other, relock.NewRedisLock("s", c, fair), "held as a Semaphore, requested as a RedisLock"},
		"a semaphore on plain":   {other, locktest.NewPermits(2)("pu", c), "held as a RedisLock, requested as a Semaphore"},
		"read/write on a permit": {other, relock.NewRWLock("s", c, block), "held as a Semaphore, requested as an RWLock"},
		"several keys": {
			other, relock.NewMultiLock([]string{"a", "rf"}, c), `: key "rf": held as a ReentrantLock, requested as a MultiLock`,
		},
		"several keys, waiting": {
			other, relock.NewMultiLock([]string{"a", "rf"}, c, block),
			`: key "rf": held as a ReentrantLock, requested as a MultiLock`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.lock.Lock(tt.ctx)
			require.ErrorIs(t, err, relock.ErrKeyConflict)
			require.NotErrorIs(t, err, relock.ErrLockAcquiredByOthers)
			require.True(t, strings.HasSuffix(err.Error(), tt.want), "%v", err)
			require.Contains(t, err.Error(), "key is used by something else: ")
		})
	}
}

// A node of a RedLock names them too.
func TestConflictOfANode(t *testing.T) {
	t.Parallel()
	var clients []*relock.Client
	for range 3 {
		s := redistest.Start(t)
		s.AwaitUp(t, 2)
		clients = append(clients, locktest.NewTestClient(t, s))
		require.NoError(t, relock.NewReentrantLock("k", clients[len(clients)-1]).Lock(t.Context()))
	}
	l := relock.NewRedLock("k", clients)
	relock.TargetOf(l).Settings.MaxLease = time.Millisecond // the servers are new, and remember all
	err := l.Lock(t.Context())
	locktest.RequireIs(t, err, relock.ErrQuorum, relock.ErrKeyConflict)
	require.ErrorContains(t, err, "held as a ReentrantLock, requested as a RedLock")
}

// A conflict is reported without what was found if that cannot be read.
func TestConflictThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t)
	require.NoError(t, relock.NewReentrantLock("k", c).Lock(t.Context()))
	s.Do(t, "ACL", "SETUSER", "default", "-hmget")
	err := relock.NewRedisLock("k", c).Lock(t.Context())
	require.EqualError(t, err, `relock: lock "k": key is used by something else: requested as a RedisLock`)
}

// A refused attempt says that it was one, and how to wait, unless the lock
// waits anyway.
func TestRefusedAttemptSaysThatItWasOne(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	other := locktest.Sibling(t, s, c)
	ctx := t.Context()
	require.NoError(t, relock.NewRedisLock("k", other).Lock(ctx))
	const text = `relock: lock "k": lock is held by others`
	require.EqualError(t, relock.NewRedisLock("k", c).Lock(ctx), text+" (one attempt; see WithBlock)")
	require.EqualError(t, relock.NewRedisLock("k", c).TryLock(ctx), text+" (one attempt; see WithBlock)")
	require.EqualError(t, relock.NewRedisLock("k", c, relock.WithBlock()).TryLock(ctx), text+" (one attempt)")
	waits := relock.NewRedisLock("k", c, relock.WithBlockTimeout(50*time.Millisecond))
	require.EqualError(t, refusal(t, func() error { return waits.Lock(ctx) }), text)
	_, err := locktest.NewLocker(t, c).TryLock(ctx, "k")
	require.EqualError(t, err, text+" (one attempt)")
}

// variant is a kind of lock with options.
type variant struct {
	kind string
	opts []relock.LockOption
}

func (v variant) lock(key string, c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
	return locktest.AllKinds[v.kind](key, c, append(opts, v.opts...)...)
}

var clock = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)`

// An attempt that meets a minimum hold says until when, and so does a wait that
// its block timeout ends.
func TestRefusedByAMinimumHold(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	for name, v := range map[string]variant{
		"plain": {"RedisLock", nil}, "fair": {"RedisLock", modes["fair"]}, "reentrant": {"ReentrantLock", nil},
		"several": {"MultiLock", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			l := v.lock(name, c, relock.WithMinHold(time.Minute))
			waits := v.lock(name, c, relock.WithMinHold(time.Minute), relock.WithBlockTimeout(50*time.Millisecond))
			wait := func() error { return waits.Lock(relock.ContextWithOwner(ctx, "other")) }
			require.NoError(t, l.Lock(ctx))
			require.NotContains(t, refusal(t, wait).Error(), "minimum hold", "it is held")
			err := l.TryLock(relock.ContextWithOwner(ctx, "other"))
			require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
			require.NotContains(t, err.Error(), "minimum hold", "it is held")
			require.NoError(t, l.Unlock(ctx))
			before := time.Now()
			err = l.TryLock(ctx)
			require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
			require.True(t, relock.IsRetryableErr(err))
			found := regexp.MustCompile(`: minimum hold until (` + clock + `) \(one attempt\)$`).FindStringSubmatch(err.Error())
			require.NotNil(t, found, "%v", err)
			until, err := time.Parse("2006-01-02T15:04:05.000Z07:00", found[1])
			require.NoError(t, err)
			require.WithinDuration(t, before.Add(time.Minute), until, 20*time.Second)
			require.Regexp(t, `: minimum hold until `+clock+`$`, refusal(t, wait).Error())
			require.Regexp(t, `: minimum hold until `+clock+` \(one attempt; see WithBlock\)$`,
				v.lock(name, c).TryLock(ctx).Error())
		})
	}
}

// A loss says which one it is, in one order of words, and so do the context
// and the Unlock.
func TestLossSaysWhich(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opt  relock.LockOption
		lose func(t *testing.T, s *redistest.Server, c *relock.Client)
		want string
		is   error
	}{
		"fixed lease":  {relock.WithExpiry(time.Second), nil, `lease over`, nil},
		"maximum hold": {relock.WithMaxHold(time.Second), nil, `maximum hold of 1s`, relock.ErrMaxHold},
		"forced": {relock.WithWatchdog(time.Hour), func(t *testing.T, _ *redistest.Server, c *relock.Client) {
			require.NoError(t, c.ForceUnlock(t.Context(), "k", "it hangs"))
		}, `forced: "it hangs"`, relock.ErrForced},
		"deleted": {relock.WithWatchdog(time.Hour), func(t *testing.T, s *redistest.Server, c *relock.Client) {
			s.Do(t, "DEL", locktest.KeyOf(c, "k"))
		}, `the server no longer has it`, nil},
		"not renewed": {relock.WithWatchdog(time.Second), func(t *testing.T, s *redistest.Server, _ *relock.Client) {
			s.Pause(t)
			t.Cleanup(func() { s.Resume(t) })
		}, `not renewed since ` + clock, nil},
	} {
		for _, kind := range oneKeyKinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				var log locktest.LogBuffer
				c := locktest.NewTestClient(t, s, log.Option())
				h := takeInTime(t, acquirerOf(kind, c, tt.opt))
				if tt.lose != nil {
					tt.lose(t, s, c)
					locktest.RenewNow(h)
				}
				<-h.Context().Done()
				text := `lock lost \(` + tt.want + `\)$`
				for what, err := range map[string]error{
					"Err": h.Err(), "Cause": context.Cause(h.Context()), "Unlock": h.Unlock(t.Context()),
				} {
					require.ErrorIs(t, err, relock.ErrLockLost, what)
					require.Regexp(t, text, err.Error(), what)
					for _, also := range []error{relock.ErrMaxHold, relock.ErrForced} {
						require.Equal(t, tt.is == also, errors.Is(err, also), what) //nolint:errorlint // the row's own
					}
					require.Equal(t, what == "Unlock", errors.Is(err, relock.ErrNotHeld), what)
				}
				require.Zero(t, h.Remaining())
				testkit.Eventually(t, testkit.Patience,
					func() bool { return log.Lines("relock: lock lost", "reason=\"lock lost (") == 1 }, "logged")
			})
		}
	}
}

// oneKeyKinds are kinds of locks whose holds have one key.
var oneKeyKinds = []string{"RedisLock", "ReentrantLock", "RWLock, reading", "MultiLock of one key"}

func acquirerOf(kind string, c *relock.Client, opts ...relock.LockOption) func(context.Context) (relock.Hold, error) {
	if newLock := locktest.AllKinds[kind]; newLock != nil {
		return newLock("k", c, opts...).Acquire
	}
	return relock.NewMultiLock([]string{"k"}, c, opts...).Acquire
}

// Do does not repeat a loss that its function has returned, but adds what that
// error does not say.
func TestDoDoesNotRepeatTheLoss(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	lock := relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithMaxHold(500*time.Millisecond))
	foreign := locktest.NewLocker(t, c, relock.WithMaxHold(500*time.Millisecond))
	for name, do := range map[string]func(func(context.Context) error) error{
		"a lock":   func(fn func(context.Context) error) error { return lock.Do(t.Context(), fn) },
		"a Locker": func(fn func(context.Context) error) error { return relock.Do(t.Context(), foreign, "k", fn) },
		"a Locker of others": func(fn func(context.Context) error) error {
			return relock.Do(t.Context(), own{foreign}, "k", fn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			stopped := func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			err := inTime(t, func() error { return do(stopped) })
			require.EqualError(t, err, "lock lost (maximum hold of 500ms)")
			require.ErrorIs(t, err, relock.ErrMaxHold)

			err = inTime(t, func() error {
				return do(func(ctx context.Context) error { <-ctx.Done(); return relock.ErrLockLost })
			})
			require.ErrorIs(t, err, relock.ErrMaxHold, "what fn's error does not say is added")
			require.Equal(t, 1, strings.Count(err.Error(), "maximum hold"))
		})
	}
}

// A call may wait for a lock that the same client holds under another owner.
// Its error names that owner, and so does the log, once for each hold, after
// one lease.
func TestWaitForTheOwnClient(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]variant{
		"reentrant": {"ReentrantLock", nil}, "fair reentrant": {"ReentrantLock", modes["fair"]}, "write": {"RWLock", nil},
		"read": {"RWLock, reading", nil},
	}, func(t *testing.T, name string, v variant) {
		s := redistest.Shared(t)
		var log locktest.LogBuffer
		c := locktest.NewTestClient(t, s, log.Option())
		outer, next := locktest.As(t, "outer"), locktest.As(t, "next")
		holder, later := v.lock("k", c), v.lock("k", c, relock.WithBlock())
		if name == "read" {
			holder = relock.NewRWLock("k", c)
		}
		require.NoError(t, holder.Lock(outer))
		const hint = ` (this client holds it as "outer"; see ContextWithOwner)`
		lock := v.lock("k", c, relock.WithBlock(), relock.WithWatchdog(time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		first, second := testkit.Async(t, func() error { return lock.Lock(ctx) }),
			testkit.Async(t, func() error { return lock.Lock(ctx) })
		line := []string{
			"relock: waiting for a lock that this client holds", "key=k kind=", "holder=outer", `waiter="goroutine `,
		}
		testkit.Eventually(t, testkit.Patience, func() bool { return log.Lines(line...) == 1 }, "it is logged")
		cancel()
		for _, wait := range []<-chan error{first, second} {
			err := testkit.ResultWithin(t, wait, testkit.Patience)
			locktest.RequireIs(t, err, context.Canceled, relock.ErrLockAcquiredByOthers)
			require.True(t, strings.HasSuffix(err.Error(), hint), "%v", err)
		}
		waits := func(c *relock.Client) func() error {
			return func() error { return v.lock("k", c, relock.WithBlockTimeout(20*time.Millisecond)).Lock(t.Context()) }
		}
		require.EqualError(t, refusal(t, waits(c)), `relock: lock "k": lock is held by others`+hint)
		require.NotContains(t, lock.TryLock(t.Context()).Error(), "this client", "an attempt does not wait")
		require.Equal(t, 1, log.Lines(line...), "once for each hold")
		require.EqualError(t, refusal(t, waits(locktest.Sibling(t, s, c))),
			`relock: lock "k": lock is held by others`, "another client")
		require.NoError(t, holder.Unlock(outer))
		require.NoError(t, later.Lock(next), "the books are in order")
		require.NoError(t, later.Unlock(next))
	})
}

// The hint names an owner that still has the lock, in whatever order the others
// unlock.
func TestHintNamesAnOwnerThatHolds(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	lock := relock.NewRWLock("k", c, relock.WithBlock())
	for _, order := range []string{"abc", "acb", "bac", "bca", "cab", "cba"} {
		for _, name := range "abc" {
			require.NoError(t, lock.RLock(locktest.As(t, string(name))))
		}
		for n, name := range order {
			writer := relock.NewRWLock("k", c, relock.WithBlockTimeout(20*time.Millisecond))
			err := refusal(t, func() error { return writer.Lock(locktest.As(t, "writer")) })
			require.Regexp(t, `\(this client holds it as "[`+order[n:]+`]"; see ContextWithOwner\)$`, err.Error())
			require.NoError(t, lock.RUnlock(locktest.As(t, string(name))))
		}
		require.NoError(t, errors.Join(lock.Lock(locktest.As(t, "writer")), lock.Unlock(locktest.As(t, "writer"))))
	}
}
