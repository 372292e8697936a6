package test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMistakesOfNewLocker(t *testing.T) {
	t.Parallel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	_, err = etcdlock.NewLocker(nil, etcdlock.WithTTL(1500*time.Millisecond), etcdlock.WithLogger(nil),
		etcdlock.WithPrefix(strings.Repeat("x", 2000)))
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, word := range []string{"client", "WithTTL", "WithLogger", "WithPrefix"} {
		require.ErrorContains(t, err, word)
	}
	for _, bad := range []time.Duration{0, -time.Second, time.Millisecond, time.Second + 1} {
		_, err = etcdlock.NewLocker(client, etcdlock.WithTTL(bad))
		require.ErrorIs(t, err, relock.ErrInvalid, "%v", bad)
	}
	_, err = etcdlock.NewLocker(client, etcdlock.WithFair(), nil)
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "opts[1]: Option is nil")
	l, err := etcdlock.NewLocker(client) // no server is there, and none is asked
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = l.Lock(context.Background(), "key")
	require.ErrorIs(t, err, relock.ErrClosed)

	var none *etcdlock.Locker
	_, err = none.TryLock(context.Background(), "key")
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorIs(t, none.Close(), relock.ErrInvalid)
	_, err = (&etcdlock.Locker{}).Lock(context.Background(), "key")
	require.ErrorIs(t, err, relock.ErrInvalid)
}

// Names that share words, or contain slashes, are different locks.
func TestNamesAreLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		l := newLocker(t, c.client(t), opts...)
		names := []string{"a", "a/b", "a/", "/a", "a b", "a%2Fb", "ab", "ä", "\x00", strings.Repeat("n", 1024), "a/b/c"}
		var holds []relock.Hold
		for _, name := range names {
			hold, err := l.TryLock(limited(t), name)
			require.NoError(t, err, "%q", name)
			holds = append(holds, hold)
		}
		for _, hold := range holds {
			unlock(t, hold)
		}
		_, err := l.TryLock(limited(t), strings.Repeat("n", 1025))
		require.ErrorIs(t, err, relock.ErrInvalid)
	})
	require.Empty(t, keys(t, c.client(t)))
}

// The two modes exclude each other, and say so.
func TestModesDoNotMix(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	fair, unfair := newLocker(t, c.client(t), etcdlock.WithFair()), newLocker(t, c.client(t))
	for _, pair := range [][2]*etcdlock.Locker{{fair, unfair}, {unfair, fair}} {
		hold := lock(t, pair[0], "key")
		for _, call := range []func(context.Context, string) (relock.Hold, error){pair[1].TryLock, pair[1].Lock} {
			_, err := call(limited(t), "key")
			require.ErrorIs(t, err, relock.ErrKeyConflict)
			require.False(t, relock.IsRetryableErr(err))
		}
		unlock(t, hold)
	}
	unlock(t, lock(t, unfair, "key"))
}

// A key that relock did not create is a conflict, also beside those of the
// lock. It is not changed.
func TestKeyOfAnotherProgram(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		l := newLocker(t, c.client(t), opts...)
		for _, key := range []string{"relock/lock/key/", "relock/lock/key/theirs"} {
			_, err := admin.Put(limited(t), key, "what another program has put")
			require.NoError(t, err)
			for _, call := range []func(context.Context, string) (relock.Hold, error){l.TryLock, l.Lock} {
				_, err := call(limited(t), "key")
				require.ErrorIs(t, err, relock.ErrKeyConflict)
			}
			soon(t, "that key alone is left", func() bool { return len(keys(t, admin)) == 1 })
			_, err = admin.Delete(limited(t), key)
			require.NoError(t, err)
			unlock(t, lock(t, l, "key"))
		}
	})
}

// A key of another program is a conflict, too, if a call comes to it behind a
// hold.
func TestKeyOfAnotherProgramInTheQueue(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	l := newLocker(t, c.client(t), etcdlock.WithFair())
	for _, key := range []struct{ name, value string }{
		{"theirs", "what another program has put"}, {"hold", "relock/1|another|host|1|1"},
	} {
		_, err := admin.Put(limited(t), "relock/lock/key/"+key.name, key.value)
		require.NoError(t, err)
	}
	done := waiter(limited(t), l, "key")
	soon(t, "it waits", func() bool { return len(keys(t, admin)) == 3 })
	_, err := admin.Delete(limited(t), "relock/lock/key/hold")
	require.NoError(t, err)
	require.ErrorIs(t, await(t, done).err, relock.ErrKeyConflict)
	soon(t, "that key alone is left", func() bool { return len(keys(t, admin)) == 1 })
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	a, b := newLocker(t, c.client(t), etcdlock.WithPrefix("a/")), newLocker(t, c.client(t), etcdlock.WithPrefix("b/"))
	one, other := lock(t, a, "key"), lock(t, b, "key")
	resp, err := c.client(t).Get(limited(t), "a/lock/key/")
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	unlock(t, one)
	unlock(t, other)
}

// The owner is the hold that the context carries, or the owner that the context
// names. Depth is counted in the client.
func TestReentry(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l, other := newLocker(t, c.faulty(t, f), opts...), newLocker(t, c.client(t), opts...)
		outer := lock(t, l, "key")
		sent := f.count("Txn")
		inner, err := l.Lock(outer.Context(), "key")
		require.NoError(t, err)
		innermost, err := l.TryLock(inner.Context(), "key")
		require.NoError(t, err)
		assert.Equal(t, outer.Fence(), innermost.Fence())
		unlock(t, outer) // in any order
		unlock(t, innermost)
		assert.Equal(t, sent, f.count("Txn"), "a level costs no request")
		require.NoError(t, inner.Err())
		require.ErrorIs(t, outer.Err(), relock.ErrNotHeld)
		_, err = other.TryLock(limited(t), "key")
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		_, err = l.TryLock(context.WithoutCancel(outer.Context()), "key") // carries a hold that was unlocked: nobody's
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		_, err = other.TryLock(inner.Context(), "key") // of another Locker
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		unlock(t, inner)
		unlock(t, lock(t, other, "key"))
	})
}

func TestReentryOfANamedOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		l := newLocker(t, c.client(t), opts...)
		ann, bob := relock.ContextWithOwner(limited(t), "ann"), relock.ContextWithOwner(limited(t), "bob")
		first, err := l.Lock(ann, "key")
		require.NoError(t, err)
		second, err := l.TryLock(ann, "key")
		require.NoError(t, err)
		_, err = l.TryLock(bob, "key")
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		done := waiter(bob, l, "key")
		unlock(t, first)
		unlock(t, second)
		r := await(t, done)
		require.NoError(t, r.err)
		unlock(t, r.hold)
		_, err = l.Lock(relock.ContextWithOwner(limited(t), ""), "key")
		require.ErrorIs(t, err, relock.ErrInvalid)
	})
}

// Two calls of one owner that wait: when one has the lock, so has the other.
func TestTwoCallsOfOneOwnerWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		l := newLocker(t, c.client(t), opts...)
		hold := lock(t, newLocker(t, c.client(t), opts...), "key")
		ann := relock.ContextWithOwner(limited(t), "ann")
		one, other := waiter(ann, l, "key"), waiter(ann, l, "key")
		_, err := l.TryLock(ann, "key")
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		unlock(t, hold)
		a, b := await(t, one), await(t, other)
		require.NoError(t, errors.Join(a.err, b.err))
		assert.Equal(t, a.hold.Fence(), b.hold.Fence())
		unlock(t, a.hold)
		require.NoError(t, b.hold.Err())
		unlock(t, b.hold)
		noKeys(t, c.client(t), "key")
	})
}

// A level inside a hold that was lost is a loss until the outermost Unlock.
func TestReentryIntoALostHold(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l := newLocker(t, c.client(t), etcdlock.WithTTL(brief))
	hold := lock(t, l, "key")
	revokeAll(t, c.client(t))
	<-hold.Context().Done()
	carries := context.WithoutCancel(hold.Context())
	_, err := l.Lock(carries, "key")
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, hold.Unlock(context.Background()), relock.ErrLockLost)
	again, err := l.Lock(carries, "key")
	require.NoError(t, err)
	unlock(t, again)
}

// revokeAll ends all leases, as an operator may.
func revokeAll(t testing.TB, client *clientv3.Client) {
	t.Helper()
	leases, err := client.Leases(limited(t))
	require.NoError(t, err)
	require.NotEmpty(t, leases.Leases)
	for _, lease := range leases.Leases {
		_, err := client.Revoke(limited(t), lease.ID)
		require.NoError(t, err)
	}
}

// Close releases the holds, ends the waits, and leaves no key. The client stays
// open.
func TestClose(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		client := c.client(t)
		l := newLocker(t, client, opts...)
		hold := lock(t, l, "key")
		done := waiter(limited(t), l, "key")
		soon(t, "the wait is under way", func() bool { return !isFair(opts) || len(keysOf(t, client, "key")) == 2 })
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		require.ErrorIs(t, await(t, done).err, relock.ErrClosed)
		require.ErrorIs(t, hold.Err(), relock.ErrClosed)
		require.ErrorIs(t, context.Cause(hold.Context()), relock.ErrClosed)
		require.Equal(t, relock.ErrClosed, errors.Unwrap(hold.Unlock(context.Background())))
		_, err := l.Lock(limited(t), "key")
		require.ErrorIs(t, err, relock.ErrClosed)
		require.Empty(t, keys(t, client))
		leases, err := client.Leases(limited(t))
		require.NoError(t, err)
		require.Empty(t, leases.Leases)
	})
}

// A Close that finds another one under way returns when that is done.
func TestCloseByTwo(t *testing.T) {
	t.Parallel()
	f := newFaults()
	l := newLocker(t, newCluster(t, 1).faulty(t, f))
	lock(t, l, "key")
	revoke := f.on("LeaseRevoke", 1, answerLate)
	closed := make(chan error, 2)
	go func() { closed <- l.Close() }()
	soon(t, "the first is under way", func() bool { return f.count("LeaseRevoke") == 1 })
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		t.Error("the second has returned before the first was done")
		closed <- err
	case <-time.After(50 * time.Millisecond): // the second has time to fail
	}
	close(revoke.held)
	for range 2 {
		require.NoError(t, <-closed)
	}
}

// A server that does not answer does not keep Close.
func TestCloseWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := newProxy(t, c.endpoints[0])
	l := newLocker(t, c.client(t, p.address), etcdlock.WithTTL(brief))
	lock(t, l, "key")
	p.silence()
	s := testkit.NewStopwatch(t)
	require.ErrorIs(t, l.Close(), relock.ErrUnconfirmed)
	s.Within(1100*time.Millisecond, "Close waits for a second")
	noKeys(t, c.client(t), "key")
}

// Nothing is sent under a context that is already cancelled.
func TestNothingIsSentUnderAnEndedContext(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	f := newFaults()
	l := newLocker(t, c.faulty(t, f))
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	_, err := l.Lock(ctx, "key")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	require.Zero(t, f.count("Txn")+f.count("LeaseGrant"))
}

// The comparison is part of a user's transaction, which fails once the hold has
// ended.
func TestCmp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		client := c.client(t)
		l := newLocker(t, client, opts...)
		hold := lock(t, l, "key")
		owned, err := etcdlock.Cmp(hold)
		require.NoError(t, err)
		write := func() bool {
			resp, err := client.Txn(limited(t)).If(owned).Then(clientv3.OpPut("data", "x")).Commit()
			require.NoError(t, err)
			return resp.Succeeded
		}
		require.True(t, write())
		unlock(t, hold)
		require.False(t, write())
		next := lock(t, l, "key")
		require.False(t, write(), "the next holder's lock does not count")
		require.Greater(t, next.Fence(), hold.Fence())
		unlock(t, next)
		_, err = etcdlock.Cmp(nil)
		require.ErrorIs(t, err, relock.ErrInvalid)
	})
}

// What is printed has no id.
func TestPrinting(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	var log strings.Builder
	l := newLocker(t, c.client(t), etcdlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	hold := lock(t, l, "key")
	assert.Equal(t, `hold of "key"`, hold.(interface{ String() string }).String())
	assert.Equal(t, "locker of etcd", l.String())
	unlock(t, hold)
}
