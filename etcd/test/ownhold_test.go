package test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// busy returns the error of a Lock that gives up after a moment, or after a
// longer one if the server had not answered by then.
func busy(t *testing.T, ctx context.Context, l relock.Locker) string {
	t.Helper()
	for moment := 300 * time.Millisecond; ; moment *= 2 {
		ctx, cancel := context.WithTimeout(ctx, moment)
		_, err := l.Lock(ctx, "key")
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if moment > patience/4 || errors.Is(err, relock.ErrLockAcquiredByOthers) {
			require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
			return err.Error()
		}
	}
}

// A nested call without the context of its outer call waits for itself. Its
// error names its own client as the holder, and since when. After one TTL the
// log has the same, once for each hold.
func TestSelfWait(t *testing.T) {
	t.Parallel()
	const clock = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)`
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		t.Parallel()
		var log logged
		l := newLocker(t, newCluster(t, 1).client(t), append(opts, etcdlock.WithTTL(brief), log.option())...)
		const hint = "relock: waiting for a lock that this client holds, perhaps for itself"
		require.NoError(t, relock.Do(limited(t), l, "key", func(context.Context) error {
			const remedy = "; nested calls need the context of that hold"
			require.Regexp(t, `held by others \(this client has held it since `+clock+remedy+`\)$`, busy(t, limited(t), l))
			ctx, cancel := context.WithCancel(limited(t))
			defer cancel()
			first, second := waiter(ctx, l, "key"), waiter(ctx, l, "key")
			soon(t, "logged", func() bool { return log.lines("level=WARN", hint, "key=key kind=etcd since=") == 1 })
			cancel()
			require.ErrorIs(t, await(t, first).err, context.Canceled)
			require.ErrorIs(t, await(t, second).err, context.Canceled)
			return nil
		}))
		require.Equal(t, 1, log.lines("this client holds"), log.String())
	})
}

// The hold of another owner is named by that owner.
func TestWaitForAnotherOwnerOfTheClient(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		t.Parallel()
		var log logged
		opts = append(opts, etcdlock.WithTTL(brief), etcdlock.WithPrefix(t.Name()+"/"), log.option())
		l := newLocker(t, c.client(t), opts...)
		hold, err := l.Lock(relock.ContextWithOwner(limited(t), "job 1"), "key")
		require.NoError(t, err)
		require.Contains(t, busy(t, limited(t), l), `held by others (this client holds it as "job 1"; see ContextWithOwner)`)
		ctx, cancel := context.WithCancel(relock.ContextWithOwner(limited(t), "job 2"))
		defer cancel()
		call := waiter(ctx, l, "key")
		soon(t, "logged", func() bool { return log.lines("this client holds", `holder="job 1" waiter="job 2"`) == 1 })
		cancel()
		require.ErrorIs(t, await(t, call).err, context.Canceled)
		unlock(t, hold)
	})
}

// The error names no hold of another Locker, none that began after the wait,
// none that has ended, and none if the call makes one attempt.
func TestWaitForOthersIsNoSelfWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		var begun atomic.Int64
		observer := etcdlock.WithObserver(relock.Observer{LockStart: func(context.Context,
			relock.LockStart,
		) {
			begun.Add(1)
		}})
		before, other := newLocker(t, c.client(t), opts...), newLocker(t, c.client(t), opts...)
		unlock(t, lock(t, before, "key"))
		hold := lock(t, other, "key")
		require.NotContains(t, busy(t, limited(t), before), "this client")

		// The first request of a new Locker is that of the first call. From
		// then on the second call is behind it.
		l := newLocker(t, c.faulty(t, f), append(opts, observer)...)
		ctx, cancel := context.WithCancel(limited(t))
		defer cancel()
		first := waiter(limited(t), l, "key")
		soon(t, "the first waits", func() bool { return f.count("Txn") > 0 })
		second := waiter(ctx, l, "key")
		soon(t, "the second begins", func() bool { return begun.Load() == 2 })
		unlock(t, hold)
		r := await(t, first)
		require.NoError(t, r.err)
		_, err := l.TryLock(limited(t), "key")
		require.NotContains(t, err.Error(), "this client", "one attempt")
		require.Contains(t, busy(t, limited(t), l), "this client")
		cancel()
		err = await(t, second).err
		require.ErrorIs(t, err, context.Canceled)
		require.NotContains(t, err.Error(), "this client", "it began to wait for others")
		unlock(t, r.hold)
		noKeys(t, c.client(t), "key")
	})
}
