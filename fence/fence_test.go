package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/fence"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

var server *redistest.Server

func TestMain(m *testing.M) {
	var stop func()
	server, stop = redistest.LaunchOrExit()
	os.Exit(locktest.Run(m, stop))
}

// newClient returns a client of the server, which it empties.
func newClient(tb testing.TB) *relock.Client {
	tb.Helper()
	server.Do(tb, "FLUSHALL")
	c, err := relock.NewClient(server.Network, server.Address, "")
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

func get(t *testing.T, key string) string {
	t.Helper()
	value, err := redis.String(server.Try(t, "GET", key))
	if err != nil {
		require.ErrorIs(t, err, redis.ErrNil)
	}
	return value
}

// An error that is not the guard's is not taken for one of its, whatever the
// key is called.
func TestOtherErrorsAreNotStale(t *testing.T) {
	c := newClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := fence.Set(ctx, c, "STALETOKEN a higher one was seen", "x", 10, 0)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, fence.ErrStale)
	_, err = fence.Eval(t.Context(), c, "guard", 10, "return redis.error_reply('ERR not STALETOKEN')", nil)
	require.Error(t, err)
	require.NotErrorIs(t, err, fence.ErrStale)
}

// A write under a lower token is refused, one under the same or a higher one is
// not.
func TestSet(t *testing.T) {
	c := newClient(t)
	for _, key := range []string{"stock", "{shop}:stock"} {
		require.NoError(t, fence.Set(t.Context(), c, key, "first", 10, 0))
		require.NoError(t, fence.Set(t.Context(), c, key, "again", 10, 0))
		err := fence.Set(t.Context(), c, key, "late", 9, 0)
		require.ErrorIs(t, err, fence.ErrStale)
		var found *relock.Error
		require.ErrorAs(t, err, &found)
		require.Equal(t, key, found.Key)
		require.Equal(t, "again", get(t, key))
		require.NoError(t, fence.Set(t.Context(), c, key, "second", 1795292944255000, time.Minute))
		require.Equal(t, "second", get(t, key))
		left, err := redis.Int64(server.Do(t, "PTTL", key), nil)
		require.NoError(t, err)
		require.InDelta(t, 60_000, left, 30_000)
		require.ErrorIs(t, fence.Set(t.Context(), c, key, "late", 1795292944254999, 0), fence.ErrStale)
		kept, err := redis.Int64(server.Do(t, "PTTL", fence.GuardOf(key)), nil)
		require.NoError(t, err)
		require.Greater(t, kept, int64(29*24*time.Hour/time.Millisecond))
	}
	require.Equal(t, "{a}:fence", fence.GuardOf("a"))
	require.Equal(t, "x{a}:guard", fence.GuardOf("x{a}"))
}

// guarded are keys that have a guard.
var guarded = []string{
	"k", "{k}", "{k}:fence", "{k}:guard", "k:fence", "x{k}", "{k}x", "{k", "{{k", "{{k}}", "k{", "}{k}",
}

// No two keys share a guard.
func TestGuards(t *testing.T) {
	keys := map[string]string{}
	for _, key := range guarded {
		guard := fence.GuardOf(key)
		require.Empty(t, keys[guard], "%q has it too", key)
		require.NotEqual(t, key, guard)
		keys[guard] = key
	}
}

// A Cluster takes what Set writes, in all slots, and Set refuses the keys whose
// guard would be elsewhere. It does so on any server.
func TestGuardsOnACluster(t *testing.T) {
	s := redistest.StartCluster(t, 2, 0)
	c := locktest.ClusterClient(t, s)
	for _, key := range guarded {
		require.NoError(t, fence.Set(t.Context(), c, key, "v", 10, 0), key)
		require.ErrorIs(t, fence.Set(t.Context(), c, key, "late", 9, 0), fence.ErrStale, key)
	}
	single := newClient(t)
	for _, key := range []string{"", "a}b", "{}a", "}", "a}b{c", "{}{k}"} {
		require.Empty(t, fence.GuardOf(key), key)
		for _, c := range []*relock.Client{c, single} {
			err := fence.Set(t.Context(), c, key, "v", 10, 0)
			require.ErrorIs(t, err, relock.ErrInvalid, key)
			require.ErrorContains(t, err, "no guard is in its slot of a Cluster")
			_, err = fence.Eval(t.Context(), c, fence.GuardOf(key), 10, "return 1", []string{key})
			require.ErrorIs(t, err, relock.ErrInvalid, key)
			_, err = c.Eval(t.Context(), relock.NewScript("return redis.call('SET', KEYS[1], 1)"), []string{key})
			require.NoError(t, err, "only with a guard it is refused")
		}
	}
}

// A script sees its own keys and arguments, and its answer and errors come
// through.
func TestEval(t *testing.T) {
	c := newClient(t)
	reply, err := fence.Eval(t.Context(), c, "{e}:guard", 5,
		"return {KEYS[1], KEYS[2], ARGV[1], #KEYS, #ARGV}", []string{"{e}a", "{e}b"}, "x")
	require.NoError(t, err)
	require.Equal(t, []any{"{e}a", "{e}b", "x", int64(2), int64(1)}, reply)
	_, err = fence.Eval(t.Context(), c, "{e}:guard", 6, "return redis.error_reply('ERR mine')", nil)
	require.ErrorContains(t, err, "mine")
	_, err = fence.Eval(t.Context(), c, "{e}:guard", 5, "return redis.call('SET', KEYS[1], 1)", []string{"{e}a"})
	require.ErrorIs(t, err, fence.ErrStale)
	require.Empty(t, get(t, "{e}a"))
}

func TestMistakes(t *testing.T) {
	c := newClient(t)
	for name, err := range map[string]error{
		"token":  fence.Set(t.Context(), c, "k", "v", 0, 0),
		"expiry": fence.Set(t.Context(), c, "k", "v", 1, -1),
		"guard":  func() error { _, err := fence.Eval(t.Context(), c, "", 1, "return 1", nil); return err }(),
	} {
		require.ErrorIs(t, err, relock.ErrInvalid)
		require.ErrorContains(t, err, name)
	}
	require.Error(t, fence.Set(t.Context(), nil, "k", "v", 1, 0))
}

// The data know the highest token under which they were written: a holder that
// lost its lock cannot write any more.
func ExampleSet() {
	client, err := relock.NewClient(server.Network, server.Address, "")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // the example ends
	ctx := context.Background()
	lock := relock.NewRedisLock("stock", client, relock.WithFencing())

	first, err := lock.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_ = client.ForceUnlock(ctx, "stock", "pretend that its lease has ended")
	second, err := lock.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("second:", fence.Set(ctx, client, "phones", "9", second.Fence(), 0))
	err = fence.Set(ctx, client, "phones", "10", first.Fence(), 0)
	fmt.Println("first is refused:", errors.Is(err, fence.ErrStale))
	_ = second.Unlock(ctx)
	// Output:
	// second: <nil>
	// first is refused: true
}

// A script of one's own, under the guard of the key that it changes.
func ExampleEval() {
	client, err := relock.NewClient(server.Network, server.Address, "")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // the example ends
	ctx := context.Background()

	sell := func(token int64) (any, error) {
		return fence.Eval(ctx, client, fence.GuardOf("tickets"), token,
			"return redis.call('INCR', KEYS[1])", []string{"tickets"})
	}
	fmt.Println(sell(17))
	_, err = sell(16)
	fmt.Println(errors.Is(err, fence.ErrStale))
	// Output:
	// 1 <nil>
	// true
}
