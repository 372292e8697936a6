package relock_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// Inspect tells who holds a lock, and for how long without a renewal.
func TestInspectHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	other := locktest.Sibling(t, s, c)
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, relock.Info{Key: "k", State: relock.StateFree}, locktest.Inspect(t, other, "k"))

	for name, tt := range map[string]struct {
		acquire func() (relock.Hold, error)
		want    relock.Info
	}{
		"plain": {
			func() (relock.Hold, error) {
				return relock.NewRedisLock("k", c, relock.WithLabel("job 7|x")).Acquire(t.Context())
			},
			relock.Info{Key: "k", State: relock.StateHeld, Kind: "plain", Holder: &relock.Holder{Label: "job 7|x", Count: 1}},
		},
		"plain, fair": {
			func() (relock.Hold, error) {
				return relock.NewRedisLock("k", c, relock.WithFair()).Acquire(t.Context())
			},
			relock.Info{Key: "k", State: relock.StateHeld, Kind: "plain", Fair: true, Holder: &relock.Holder{Count: 1}},
		},
		"reentrant": {
			func() (relock.Hold, error) {
				return relock.NewReentrantLock("k", c, relock.WithOwner("job:7"), relock.WithLabel("l")).Acquire(t.Context())
			},
			relock.Info{Key: "k", State: relock.StateHeld, Kind: "reentrant", Holder: &relock.Holder{Label: "l", Owner: "job:7", Count: 1}},
		},
		"reentrant, fair": {
			func() (relock.Hold, error) {
				return relock.NewReentrantLock("k", c, relock.WithFair(), relock.WithOwner("me")).Acquire(t.Context())
			},
			relock.Info{Key: "k", State: relock.StateHeld, Kind: "reentrant", Fair: true, Holder: &relock.Holder{Owner: "me", Count: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now().Truncate(time.Millisecond)
			h, err := tt.acquire()
			require.NoError(t, err)
			got := locktest.Inspect(t, other, "k")
			require.Greater(t, got.Left, 25*time.Second)
			require.LessOrEqual(t, got.Left, lockspec.DefaultLease)
			require.False(t, got.Holder.Since.Before(start))
			require.False(t, got.Holder.Since.After(time.Now()))
			tt.want.Left, tt.want.Holder.Since = got.Left, got.Holder.Since
			tt.want.Holder.Client, tt.want.Holder.Host, tt.want.Holder.PID = locktest.Engine(c).Identity.ID, host, os.Getpid()
			require.Equal(t, tt.want, got)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// Inspect tells the levels, the goroutine that is the owner, and the last token.
func TestInspectLevelsAndToken(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	l := relock.NewReentrantLock("k", c, relock.WithFencing())
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	info := locktest.Inspect(t, c, "k")
	require.Equal(t, 2, info.Holder.Count)
	require.True(t, strings.HasPrefix(info.Holder.Owner, "goroutine "), info.Holder.Owner)
	require.Equal(t, h.Fence(), info.Fence)
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, relock.Info{Key: "k", State: relock.StateFree, Fence: h.Fence()}, locktest.Inspect(t, c, "k"))
}

// Inspect tells who waits, in their order, and whom the lock is reserved for.
func TestInspectWaiters(t *testing.T) {
	t.Parallel()
	for _, m := range locktest.QueueModes() {
		t.Run(m.Title(), func(t *testing.T) {
			t.Parallel()
			q := locktest.NewQueueBench(t, m, 3)
			h := q.Take(q.Clients[0])
			first := q.WaitNext(t.Context(), 0, q.Clients[1])
			second := q.WaitNext(t.Context(), 1, q.Clients[2])
			time.Sleep(20 * time.Millisecond)
			info := locktest.Inspect(t, q.Clients[0], locktest.QueueKey)
			require.Equal(t, 2, info.Waiting)
			require.Len(t, info.Waiters, 2)
			for i, w := range info.Waiters {
				require.Equal(t, locktest.Engine(q.Clients[i+1]).Identity.ID, w.Client)
				require.Equal(t, info.Kind, w.Kind)
				require.Equal(t, m.Fair, w.Fair)
				require.GreaterOrEqual(t, w.Age, 20*time.Millisecond)
				require.Less(t, w.Age, testkit.Patience)
			}
			q.Unlock(h)
			q.Unlock(first.Granted())
			q.Unlock(second.Granted())
		})
	}
}

// A lock that was handed over and not taken is reserved; one that is kept for its minimum hold says so.
func TestInspectReservedAndKept(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	for _, letters := range []string{"pu", "pf", "ru", "rf"} {
		s.Do(t, "SET", locktest.KeyOf(c, "k"), scripttest.WaitNamed("c1", 7, letters).Reserved(), "PX", 5000)
		info := locktest.Inspect(t, c, "k")
		require.Equal(t, relock.Info{Key: "k", State: relock.StateReserved, Kind: lockspec.KindOfWait(letters[0]).Family.String(), Fair: letters[1] == 'f', Left: info.Left}, info)
		require.Positive(t, info.Left)
		s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	}
	for name, newLock := range locktest.Kinds {
		l := newLock(name, c, relock.WithMinHold(time.Minute))
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()))
		info := locktest.Inspect(t, c, name)
		require.Equal(t, relock.StateKept, info.State)
		require.Equal(t, locktest.Engine(c).Identity.ID, info.Holder.Client)
		require.Greater(t, info.Left, 50*time.Second)
	}
}

// A key without an expiry says so, whatever it is. It does not look like one
// that is about to end, nor like a free one.
func TestInspectWithoutAnExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	require.NoError(t, relock.NewRedisLock("plain", c).Lock(t.Context()))
	require.NoError(t, relock.NewReentrantLock("reentrant", c).Lock(t.Context()))
	require.NoError(t, relock.NewRWLock("read/write", c).RLock(t.Context()))
	for _, kind := range []string{"plain", "reentrant", "read/write"} {
		require.Positive(t, locktest.Inspect(t, c, kind).Left)
		s.Do(t, "PERSIST", locktest.KeyOf(c, kind))
		info := locktest.Inspect(t, c, kind)
		require.Equal(t, relock.StateHeld, info.State)
		require.Equal(t, kind, info.Kind)
		require.Equal(t, relock.NoExpiry, info.Left, kind)
	}
	s.Do(t, "SET", locktest.KeyOf(c, "foreign"), "x")
	info, err := c.Inspect(t.Context(), "foreign")
	require.ErrorIs(t, err, relock.ErrKeyConflict)
	require.Equal(t, relock.NoExpiry, info.Left)
	require.Zero(t, locktest.Inspect(t, c, "nothing").Left)
}

// What is not a lock is a conflict, and a mistake is told.
func TestInspectConflict(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	for name, write := range map[string][]any{
		"text":           {"SET", "hello", "PX", 60_000},
		"list":           {"LPUSH", "a"},
		"another hash":   {"HSET", "field", "value"},
		"later version":  {"SET", "relock/2|p|h|c|h|1|l|2", "PX", 60_000},
		"too few parts":  {"SET", "relock/1|p|h", "PX", 60_000},
		"unknown letter": {"SET", "relock/1|z|h|c|h|1|l|2", "PX", 60_000},
		"no wait":        {"SET", "relock/1|w|x", "PX", 60_000},
		"no info":        {"HSET", "hold", "h"},
		"bad info":       {"HSET", "hold", "h", "info", "relock/1|r|c"},
	} {
		key := locktest.KeyOf(c, name)
		s.Do(t, write[0].(string), append([]any{key}, write[1:]...)...)
		_, err := c.Inspect(t.Context(), name)
		require.ErrorIs(t, err, relock.ErrKeyConflict, name)
	}
	_, err := c.Inspect(t.Context(), "")
	require.ErrorIs(t, err, relock.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Inspect(ctx, "k")
	require.ErrorIs(t, err, context.Canceled)
}

// An answer that is not that of the script is an error, whatever it is.
func TestReadInfoOfAnything(t *testing.T) {
	some := func(change func(parts []any)) any {
		parts := []any{[]byte("free"), []byte(""), int64(-2), []byte("false"), []byte("1"), int64(0), []any{}}
		change(parts)
		return parts
	}
	_, err := relock.ReadInfo("k", some(func([]any) {}))
	require.NoError(t, err)
	for _, reply := range []any{
		nil, int64(1),
		[]any{},
		some(func(p []any) { p[2] = []byte("x") }), some(func(p []any) { p[6] = int64(1) }),
		some(func(p []any) { p[1] = []any{int64(1)} }), some(func(p []any) { p[4] = []any{} }),
	} {
		_, err := relock.ReadInfo("k", reply)
		require.ErrorIs(t, err, relock.ErrKeyConflict, reply)
	}
	info, err := relock.ReadInfo("k", some(func(p []any) { p[6] = []any{[]byte("not a wait"), []byte("1"), []byte("c:1:pu:1250"), []byte("x")} }))
	require.NoError(t, err)
	require.Equal(t, []relock.Waiter{{Client: "c", Kind: "plain"}}, info.Waiters)
}

// List goes through the locks of its prefix, once each.
func TestList(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithKeyPrefix(`p*?[a]\:`))
	other := locktest.NewTestClient(t, s, relock.WithKeyPrefix("pXYa:"))
	_, err := relock.NewRedisLock("job:1", other).Acquire(t.Context())
	require.NoError(t, err)
	var names []string
	for i := range 600 {
		name := "job:" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/182)
		if !slices.Contains(names, name) {
			names = append(names, name)
			require.NoError(t, relock.NewRedisLock(name, c, relock.WithWatchdog(time.Minute)).Lock(t.Context()))
		}
	}
	require.NoError(t, relock.NewReentrantLock("account", c, relock.WithFencing()).Lock(t.Context()))
	require.Equal(t, slices.Sorted(slices.Values(names)), listedHeld(t, c, "job:*"))
	require.Equal(t, []string{"account"}, listedHeld(t, c, "acc*t"))
	require.Empty(t, listedHeld(t, c, "nothing"))
	require.Len(t, listedHeld(t, c, "*"), len(names)+1)

	s.Do(t, "SET", locktest.KeyOf(c, "alien"), "x")
	var conflicts, locks int
	for info, err := range c.List(t.Context(), "a*") {
		if err != nil {
			require.ErrorIs(t, err, relock.ErrKeyConflict)
			conflicts++
			continue
		}
		require.Equal(t, "account", info.Key)
		locks++
	}
	require.Equal(t, [2]int{1, 1}, [2]int{conflicts, locks})
	for _, err := range c.List(t.Context(), "job:*") { // which the alien is not: it may be the first of all
		require.NoError(t, err)
		break // ends it
	}
}

func listedHeld(t testing.TB, c *relock.Client, pattern string) (names []string) {
	t.Helper()
	for info, err := range c.List(t.Context(), pattern) {
		require.NoError(t, err)
		require.Equal(t, relock.StateHeld, info.State)
		names = append(names, info.Key)
	}
	slices.Sort(names)
	return names
}

// A key whose name no lock can have is listed as something else.
func TestListGoesOnBehindForeignKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	foreign := []string{"", "}x", strings.Repeat("x", lockspec.MaxKey+1)}
	for _, name := range foreign {
		s.Do(t, "SET", locktest.KeyOf(c, name), "x")
	}
	require.NoError(t, relock.NewRedisLock("a", c).Lock(t.Context()))
	var conflicts, locks []string
	for info, err := range c.List(t.Context(), "*") {
		if err == nil {
			locks = append(locks, info.Key)
			continue
		}
		require.ErrorIs(t, err, relock.ErrKeyConflict)
		conflicts = append(conflicts, info.Key)
	}
	require.Equal(t, []string{"a"}, locks)
	require.ElementsMatch(t, foreign, conflicts)
}

// An error ends the list.
func TestListEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	require.NoError(t, relock.NewRedisLock("a", c).Lock(t.Context()))
	require.NoError(t, relock.NewRedisLock("b", c).Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs []error
	for _, err := range c.List(ctx, "*") {
		cancel()
		errs = append(errs, err)
	}
	require.Len(t, errs, 2)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], context.Canceled)
}
