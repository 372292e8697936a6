package acquire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A MultiLock that waits returns the key that it cannot use with the request
// that finds so: no other connection is needed, though the server refuses one.
func TestMultiLockReturnsAKeyWithoutAnotherConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	others := locktest.Sibling(t, s, c)
	a, err := relock.NewRedisLock("a", others).Acquire(t.Context())
	require.NoError(t, err)
	b, err := relock.NewRedisLock("b", others).Acquire(t.Context())
	require.NoError(t, err)
	l := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithBlock())
	got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	locktest.AwaitHeard(t, s, locktest.KeyOf(c, "a"), c)
	admin := s.Dial(t)
	defer admin.Close() //nolint:errcheck // of a test
	_, err = admin.Do("CONFIG", "SET", "maxclients", "1")
	require.NoError(t, err)

	require.NoError(t, a.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool {
		n, err := admin.Do("ZCARD", locktest.KeyOf(c, "b")+":q")
		require.NoError(t, err)
		return n == int64(1)
	}, "it waits for the other key")
	n, err := admin.Do("EXISTS", locktest.KeyOf(c, "a"))
	require.NoError(t, err)
	require.Equal(t, int64(0), n, "the first key is free")

	require.NoError(t, b.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, got, testkit.Patience))
	_, err = admin.Do("CONFIG", "SET", "maxclients", "1000")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
}

// A client that asks for one key after another returns a key that it cannot use
// as well.
func TestMultiLockOneByOneReturnsAKey(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	locktest.Engine(c).OneByOne.Store(true)
	others := locktest.Sibling(t, s, c)
	b, err := relock.NewRedisLock("b", others).Acquire(t.Context())
	require.NoError(t, err)
	l := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithBlock())
	got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	locktest.AwaitHeard(t, s, locktest.KeyOf(c, "b"), c)
	a, err := relock.NewRedisLock("a", others, relock.WithBlock()).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "ZCARD", locktest.KeyOf(c, "a")+":q") == int64(1) }, "it waits for the other key")
	testkit.Eventually(t, 5*time.Second, func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "b")) == int64(0) }, "the key that it was handed is free")
	require.NoError(t, a.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, got, testkit.Patience))
	require.NoError(t, l.Unlock(t.Context()))
}
