package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// lockOn returns a lock on clients of three servers, or on the first of them.
type lockOn func(t *testing.T, c []*relock.Client, opts ...relock.LockOption) relock.Mutex

func plainOn(_ *testing.T, c []*relock.Client, opts ...relock.LockOption) relock.Mutex {
	return relock.NewRedisLock("k", c[0], opts...)
}

func fairOn(t *testing.T, c []*relock.Client, opts ...relock.LockOption) relock.Mutex {
	return plainOn(t, c, append(opts, relock.WithFair())...)
}

func multiOn(_ *testing.T, c []*relock.Client, opts ...relock.LockOption) relock.Mutex {
	return relock.NewMultiLock([]string{"a", "k"}, c[0], opts...)
}

func lockerOn(t *testing.T, c []*relock.Client, opts ...relock.LockOption) relock.Mutex {
	return relock.FromLocker(locktest.NewLocker(t, c[0], opts...), "k")
}

func quorumOn(_ *testing.T, c []*relock.Client, opts ...relock.LockOption) relock.Mutex {
	l := relock.NewRedLock("k", c, opts...)
	relock.TargetOf(l).Settings.MaxLease = time.Millisecond // the servers are new, and remember all
	return l
}

// A nested call without the context of its outer call waits for itself. Its
// error names its own client as the holder, and since when. After one lease the
// log has the same.
func TestSelfWait(t *testing.T) {
	t.Parallel()
	const reentrant = "nested calls need a ReentrantLock"
	type nested struct {
		outer, inner lockOn
		kind, remedy string
	}
	testkit.Each(t, map[string]nested{
		"plain":               {plainOn, plainOn, "plain", reentrant},
		"fair":                {fairOn, fairOn, "plain", reentrant},
		"several keys":        {plainOn, multiOn, "plain", reentrant},
		"one of several keys": {multiOn, plainOn, "multi", reentrant},
		"quorum":              {quorumOn, quorumOn, "quorum", reentrant},
		"a Locker":            {plainOn, lockerOn, "plain", "nested calls need the context of that hold"},
	}, func(t *testing.T, _ string, tt nested) {
		var log locktest.LogBuffer
		var clients []*relock.Client
		for range 3 {
			s := redistest.Start(t)
			s.AwaitUp(t, 2)
			clients = append(clients, locktest.NewTestClient(t, s, log.Option()))
		}
		line := []string{"level=WARN", "relock: waiting for a lock that this client holds", "key=k kind=" + tt.kind +
			" label=report", "since="}
		require.NoError(t, tt.outer(t, clients, relock.WithLabel("report")).Do(t.Context(), func(context.Context) error {
			err := refusal(t, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				return tt.inner(t, clients, relock.WithBlock()).Lock(ctx)
			})
			require.Regexp(t, `lock is held by others(: key "k")? \(this client has held it since `+clock+"; "+tt.remedy+`\)$`,
				err.Error())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wait := testkit.Async(t, func() error {
				return tt.inner(t, clients, relock.WithBlock(), relock.WithWatchdog(300*time.Millisecond)).Lock(ctx)
			})
			testkit.Eventually(t, testkit.Patience, func() bool { return log.Lines(line...) == 1 }, "it is logged")
			cancel()
			require.ErrorIs(t, testkit.ResultWithin(t, wait, testkit.Patience), context.Canceled)
			return nil
		}))
		require.Equal(t, 1, log.Lines("this client holds"), log.String())
	})
}

// The error names no hold of another client, none that began after the wait,
// and none if the call makes one attempt.
func TestWaitForOthersIsNoSelfWait(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	lock := func(opts ...relock.LockOption) *relock.RedisLock { return relock.NewRedisLock("k", c, opts...) }
	other := locktest.Take(t, relock.NewRedisLock("k", locktest.Sibling(t, s, c)).Acquire)
	timeout := func() error { return lock(relock.WithBlockTimeout(20 * time.Millisecond)).Lock(t.Context()) }
	require.EqualError(t, refusal(t, timeout), `relock: lock "k": lock is held by others`)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var h relock.Hold
	first := testkit.Async(t, func() (err error) {
		h, err = lock(relock.WithBlock()).Acquire(t.Context())
		return err
	})
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == 1 }, "the first waits")
	second := testkit.Async(t, func() error { return lock(relock.WithBlock()).Lock(ctx) })
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == 2 }, "the second waits")
	require.NoError(t, other.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, first, testkit.Patience))
	require.NotContains(t, lock().Lock(t.Context()).Error(), "this client", "one attempt")
	require.Contains(t, refusal(t, timeout).Error(), "this client")
	cancel()
	err := testkit.ResultWithin(t, second, testkit.Patience)
	locktest.RequireIs(t, err, context.Canceled, relock.ErrLockAcquiredByOthers)
	require.NotContains(t, err.Error(), "this client", "it began to wait for others")
	require.NoError(t, h.Unlock(t.Context()))
}

// A wait that ends before its first pause names the own client too.
func TestShortWaitForTheOwnClient(t *testing.T) {
	t.Parallel()
	c, proxy := locktest.Behind(t, redistest.Shared(t), relock.WithCommandTimeout(testkit.Patience))
	require.NoError(t, relock.NewRedisLock("k", c).Lock(t.Context()))
	proxy.On(faults.Script(script.Enqueue.SHA), faults.Every, faults.DropAnswer)
	err := refusal(t, func() error {
		return relock.NewRedisLock("k", c, relock.WithBlockTimeout(300*time.Millisecond)).Lock(t.Context())
	})
	require.ErrorContains(t, err, "lock is held by others (this client has held it since ")
}
