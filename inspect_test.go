package relock

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

func inspect(t testing.TB, c *Client, key string) Info {
	t.Helper()
	info, err := c.Inspect(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, key, info.Key)
	return info
}

// Inspect tells who holds a lock, and for how long without a renewal.
func TestInspectHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	other := sibling(t, s, c)
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, Info{Key: "k", State: StateFree}, inspect(t, other, "k"))

	for name, tt := range map[string]struct {
		acquire func() (Hold, error)
		want    Info
	}{
		"plain": {
			func() (Hold, error) { return NewRedisLock("k", c, WithLabel("job 7|x")).Acquire(t.Context()) },
			Info{Key: "k", State: StateHeld, Kind: "plain", Holder: &Holder{Label: "job 7|x", Count: 1}},
		},
		"plain, fair": {
			func() (Hold, error) { return NewRedisLock("k", c, WithFair()).Acquire(t.Context()) },
			Info{Key: "k", State: StateHeld, Kind: "plain", Fair: true, Holder: &Holder{Count: 1}},
		},
		"reentrant": {
			func() (Hold, error) {
				return owned("job:7", NewReentrantLock("k", c, WithLabel("l"))).Acquire(t.Context())
			},
			Info{Key: "k", State: StateHeld, Kind: "reentrant", Holder: &Holder{Label: "l", Owner: "job:7", Count: 1}},
		},
		"reentrant, fair": {
			func() (Hold, error) {
				return owned("me", NewReentrantLock("k", c, WithFair())).Acquire(t.Context())
			},
			Info{Key: "k", State: StateHeld, Kind: "reentrant", Fair: true, Holder: &Holder{Owner: "me", Count: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now().Truncate(time.Millisecond)
			h, err := tt.acquire()
			require.NoError(t, err)
			got := inspect(t, other, "k")
			require.Greater(t, got.Remaining, 25*time.Second)
			require.LessOrEqual(t, got.Remaining, lockspec.DefaultLease)
			require.False(t, got.Holder.Since.Before(start))
			require.False(t, got.Holder.Since.After(time.Now()))
			tt.want.Remaining, tt.want.Holder.Since = got.Remaining, got.Holder.Since
			tt.want.Holder.Client, tt.want.Holder.Host, tt.want.Holder.PID = c.engine.Identity.ID, host, os.Getpid()
			require.Equal(t, tt.want, got)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// Inspect tells the levels, the goroutine that is the owner, and the last token.
func TestInspectLevelsAndToken(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	l := NewReentrantLock("k", c, WithFencing())
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Lock(t.Context()))
	info := inspect(t, c, "k")
	require.Equal(t, 2, info.Holder.Count)
	require.True(t, strings.HasPrefix(info.Holder.Owner, "goroutine "), info.Holder.Owner)
	require.Equal(t, h.Fence(), info.Fence)
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, Info{Key: "k", State: StateFree, Fence: h.Fence()}, inspect(t, c, "k"))
}

// Inspect tells who waits, in their order, and whom the lock is reserved for.
func TestInspectWaiters(t *testing.T) {
	t.Parallel()
	for _, m := range queueModes() {
		t.Run(m.name(), func(t *testing.T) {
			t.Parallel()
			q := newQueueBench(t, m, 3)
			h := q.take(q.clients[0])
			first := q.waitNext(t.Context(), 0, q.clients[1])
			second := q.waitNext(t.Context(), 1, q.clients[2])
			time.Sleep(20 * time.Millisecond)
			info := inspect(t, q.clients[0], queueKey)
			require.Equal(t, 2, info.Waiting)
			require.Len(t, info.Waiters, 2)
			for i, w := range info.Waiters {
				require.Equal(t, q.clients[i+1].engine.Identity.ID, w.Client)
				require.Equal(t, info.Kind, w.Kind)
				require.Equal(t, m.fair, w.Fair)
				require.GreaterOrEqual(t, w.Age, 20*time.Millisecond)
				require.Less(t, w.Age, testkit.Patience)
			}
			q.unlock(h)
			q.unlock(first.granted())
			q.unlock(second.granted())
		})
	}
}

// A lock that was handed over and not taken is reserved; one that is kept for its minimum hold says so.
func TestInspectReservedAndKept(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	for _, letters := range []string{"pu", "pf", "ru", "rf"} {
		s.Do(t, "SET", keyOf(c, "k"), scripttest.WaitNamed("c1", 7, letters).Reserved(), "PX", 5000)
		info := inspect(t, c, "k")
		require.Equal(t, Info{Key: "k", State: StateReserved, Kind: lockspec.KindOfWait(letters[0]).Family.String(), Fair: letters[1] == 'f', Remaining: info.Remaining}, info)
		require.Positive(t, info.Remaining)
		s.Do(t, "DEL", keyOf(c, "k"))
	}
	for name, newLock := range kinds {
		l := newLock(name, c, WithMinHold(time.Minute))
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()))
		info := inspect(t, c, name)
		require.Equal(t, StateKept, info.State)
		require.Equal(t, c.engine.Identity.ID, info.Holder.Client)
		require.Greater(t, info.Remaining, 50*time.Second)
	}
}

// A key without an expiry says so, whatever it is. It does not look like one
// that is about to end, nor like a free one.
func TestInspectWithoutAnExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	require.NoError(t, NewRedisLock("plain", c).Lock(t.Context()))
	require.NoError(t, NewReentrantLock("reentrant", c).Lock(t.Context()))
	require.NoError(t, NewRWLock("read/write", c).RLock(t.Context()))
	for _, kind := range []string{"plain", "reentrant", "read/write"} {
		require.Positive(t, inspect(t, c, kind).Remaining)
		s.Do(t, "PERSIST", keyOf(c, kind))
		info := inspect(t, c, kind)
		require.Equal(t, StateHeld, info.State)
		require.Equal(t, kind, info.Kind)
		require.Equal(t, NoExpiry, info.Remaining, kind)
	}
	s.Do(t, "SET", keyOf(c, "foreign"), "x")
	info, err := c.Inspect(t.Context(), "foreign")
	require.ErrorIs(t, err, ErrKeyConflict)
	require.Equal(t, NoExpiry, info.Remaining)
	require.Zero(t, inspect(t, c, "nothing").Remaining)
}

// What is not a lock is a conflict, and a mistake is told.
func TestInspectConflict(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
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
		key := keyOf(c, name)
		s.Do(t, write[0].(string), append([]any{key}, write[1:]...)...)
		_, err := c.Inspect(t.Context(), name)
		require.ErrorIs(t, err, ErrKeyConflict, name)
	}
	_, err := c.Inspect(t.Context(), "")
	require.ErrorIs(t, err, ErrInvalid)
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
	_, err := readInfo("k", some(func([]any) {}))
	require.NoError(t, err)
	for _, reply := range []any{
		nil, int64(1),
		[]any{},
		some(func(p []any) { p[2] = []byte("x") }), some(func(p []any) { p[6] = int64(1) }),
		some(func(p []any) { p[1] = []any{int64(1)} }), some(func(p []any) { p[4] = []any{} }),
	} {
		_, err := readInfo("k", reply)
		require.ErrorIs(t, err, ErrKeyConflict, reply)
	}
	info, err := readInfo("k", some(func(p []any) { p[6] = []any{[]byte("not a wait"), []byte("1"), []byte("c:1:pu:1250"), []byte("x")} }))
	require.NoError(t, err)
	require.Equal(t, []Waiter{{Client: "c", Kind: "plain"}}, info.Waiters)
}

// List goes through the locks of its prefix, once each.
func TestList(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithKeyPrefix(`p*?[a]\:`))
	other := newTestClient(t, s, WithKeyPrefix("pXYa:"))
	_, err := NewRedisLock("job:1", other).Acquire(t.Context())
	require.NoError(t, err)
	var names []string
	for i := range 600 {
		name := "job:" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/182)
		if !slices.Contains(names, name) {
			names = append(names, name)
			require.NoError(t, NewRedisLock(name, c, WithWatchdog(time.Minute)).Lock(t.Context()))
		}
	}
	require.NoError(t, NewReentrantLock("account", c, WithFencing()).Lock(t.Context()))
	require.Equal(t, slices.Sorted(slices.Values(names)), listedHeld(t, c, "job:*"))
	require.Equal(t, []string{"account"}, listedHeld(t, c, "acc*t"))
	require.Empty(t, listedHeld(t, c, "nothing"))
	require.Len(t, listedHeld(t, c, "*"), len(names)+1)

	s.Do(t, "SET", keyOf(c, "alien"), "x")
	var conflicts, locks int
	for info, err := range c.List(t.Context(), "a*") {
		if err != nil {
			require.ErrorIs(t, err, ErrKeyConflict)
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

func listedHeld(t testing.TB, c *Client, pattern string) (names []string) {
	t.Helper()
	for info, err := range c.List(t.Context(), pattern) {
		require.NoError(t, err)
		require.Equal(t, StateHeld, info.State)
		names = append(names, info.Key)
	}
	slices.Sort(names)
	return names
}

// A key whose name no lock can have is listed as something else.
func TestListGoesOnBehindForeignKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	foreign := []string{"", "}x", strings.Repeat("x", lockspec.MaxKey+1)}
	for _, name := range foreign {
		s.Do(t, "SET", keyOf(c, name), "x")
	}
	require.NoError(t, NewRedisLock("a", c).Lock(t.Context()))
	var conflicts, locks []string
	for info, err := range c.List(t.Context(), "*") {
		if err == nil {
			locks = append(locks, info.Key)
			continue
		}
		require.ErrorIs(t, err, ErrKeyConflict)
		conflicts = append(conflicts, info.Key)
	}
	require.Equal(t, []string{"a"}, locks)
	require.ElementsMatch(t, foreign, conflicts)
}

// An error ends the list.
func TestListEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	require.NoError(t, NewRedisLock("a", c).Lock(t.Context()))
	require.NoError(t, NewRedisLock("b", c).Lock(t.Context()))
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
