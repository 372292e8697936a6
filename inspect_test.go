package relock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// written completes what the client's holder has written down of itself.
func written(t testing.TB, c *relock.Client, h relock.Holder, since time.Time) relock.Holder {
	t.Helper()
	host, err := os.Hostname()
	require.NoError(t, err)
	h.Client, h.Host, h.PID, h.Since = locktest.Engine(c).Identity.ID, host, os.Getpid(), since
	return h
}

func TestInspectHolder(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	other := locktest.Sibling(t, s, c)
	require.Equal(t, relock.Info{Key: "k", State: relock.StateFree}, locktest.Inspect(t, other, "k"))
	for name, tt := range map[string]struct {
		lock   locktest.AnyLock
		kind   relock.Kind
		fair   bool
		holder relock.Holder
	}{
		"plain": {relock.NewRedisLock("k", c, relock.WithLabel("job 7|x")), relock.KindPlain, false, relock.Holder{
			Label: "job 7|x", Count: 1,
		}},
		"plain, fair": {relock.NewRedisLock("k", c, relock.WithFair()), relock.KindPlain, true, relock.Holder{Count: 1}},
		"reentrant": {
			locktest.Owned("job:7", relock.NewReentrantLock("k", c, relock.WithLabel("l"))),
			relock.KindReentrant, false,
			relock.Holder{Label: "l", Owner: "job:7", Count: 1},
		},
		"reentrant, fair": {
			locktest.Owned("me", relock.NewReentrantLock("k", c, relock.WithFair())),
			relock.KindReentrant, true,
			relock.Holder{Owner: "me", Count: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now().Truncate(time.Millisecond)
			h := locktest.Take(t, tt.lock.Acquire)
			got := locktest.Inspect(t, other, "k")
			require.Greater(t, got.Remaining, 25*time.Second)
			require.LessOrEqual(t, got.Remaining, lockspec.DefaultLease)
			require.WithinRange(t, got.Holder.Since, start, time.Now())
			holder := written(t, c, tt.holder, got.Holder.Since)
			require.Equal(t, relock.Info{
				Key: "k", State: relock.StateHeld, Kind: tt.kind, Fair: tt.fair, Holder: &holder, Remaining: got.Remaining,
			}, got)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// Inspect returns the levels, the goroutine that is the owner, and the last
// token.
func TestInspectLevelsAndToken(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	l := relock.NewReentrantLock("k", c, relock.WithFencing())
	h := locktest.Take(t, l.Acquire)
	require.NoError(t, l.Lock(t.Context()))
	info := locktest.Inspect(t, c, "k")
	require.Equal(t, 2, info.Holder.Count)
	require.True(t, strings.HasPrefix(info.Holder.Owner, "goroutine "), info.Holder.Owner)
	require.Equal(t, h.Fence(), info.Fence)
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, relock.Info{Key: "k", State: relock.StateFree, Fence: h.Fence()}, locktest.Inspect(t, c, "k"))
}

// Inspect returns the waiters in their order.
func TestInspectWaiters(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 3)
		h := q.Take(q.Clients[0])
		first := q.WaitNext(t.Context(), 0, q.Clients[1])
		second := q.WaitNext(t.Context(), 1, q.Clients[2])
		time.Sleep(20 * time.Millisecond) // the least age
		info := locktest.Inspect(t, q.Clients[0], locktest.QueueKey)
		require.Equal(t, 2, info.Waiting)
		require.Len(t, info.Waiters, 2)
		for i, w := range info.Waiters {
			require.Equal(t,
				relock.Waiter{Client: locktest.Engine(q.Clients[i+1]).Identity.ID, Age: w.Age, Kind: info.Kind, Fair: m.Fair}, w)
			require.GreaterOrEqual(t, w.Age, 20*time.Millisecond)
			require.Less(t, w.Age, testkit.Patience)
		}
		q.Unlock(h)
		q.Unlock(first.Granted())
		q.Unlock(second.Granted())
	})
}

// A lock that was handed off and not taken is reserved. One that is in its
// minimum hold is kept.
func TestInspectReservedAndKept(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	for letters, kind := range map[string]string{"pu": "plain", "pf": "plain", "ru": "reentrant", "rf": "reentrant"} {
		s.Do(t, "SET", locktest.KeyOf(c, "k"), lockspec.Reservation("c1:7:"+letters+":7000"), "PX", 60_000)
		info := locktest.Inspect(t, c, "k")
		require.Equal(t, relock.Info{
			Key: "k", State: relock.StateReserved, Kind: relock.Kind(kind), Fair: letters[1] == 'f',
			Remaining: info.Remaining,
		}, info)
		require.Positive(t, info.Remaining)
		s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	}
	for name, newLock := range locktest.Kinds {
		l := newLock(name, c, relock.WithMinHold(time.Minute))
		require.NoError(t, errors.Join(l.Lock(t.Context()), l.Unlock(t.Context())))
		info := locktest.Inspect(t, c, name)
		require.Equal(t, relock.StateKept, info.State)
		require.Equal(t, locktest.Engine(c).Identity.ID, info.Holder.Client)
		require.Greater(t, info.Remaining, 50*time.Second)
	}
}

// Inspect returns the readers or the writer of a read/write lock, their levels,
// and the waiters.
func TestInspectRWLock(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	other := locktest.Sibling(t, s, c)
	testkit.Each(t, modes, func(t *testing.T, mode string, opts []relock.LockOption) {
		key := "rw " + mode
		mine := locktest.OwnedRW("job:7|x", relock.NewRWLock(key, c, append(opts, relock.WithLabel("l"))...))
		theirs := locktest.OwnedRW("second", relock.NewRWLock(key, other, opts...))
		require.NoError(t, mine.Lock(t.Context()))
		require.NoError(t, mine.RLock(t.Context()))
		info := locktest.Inspect(t, other, key)
		require.Greater(t, info.Remaining, 25*time.Second)
		require.WithinDuration(t, time.Now(), info.Holder.Since, 10*time.Second)
		writer := written(t, c, relock.Holder{Label: "l", Owner: "job:7|x", Count: 2}, info.Holder.Since)
		require.Equal(t, relock.Info{
			Key: key, State: relock.StateHeld, Kind: relock.KindReadWrite, Fair: mode == "fair", Holder: &writer,
			Remaining: info.Remaining,
		}, info)

		ctx, cancel := context.WithCancel(t.Context())
		waits := testkit.Async(t, func() error {
			return relock.NewRWLock(key, other, append(opts, relock.WithBlock())...).Lock(ctx)
		})
		awaitWaiting(t, c, key, 1)
		w := locktest.Inspect(t, c, key).Waiters[0]
		require.Equal(t, relock.Waiter{locktest.Engine(other).Identity.ID, w.Age, "read/write", mode == "fair"}, w)
		// by the poll after its subscription: a late one would enqueue again
		locktest.AwaitSubscribed(t, s, locktest.KeyOf(c, key), other)
		cancel()
		require.ErrorIs(t, testkit.ResultWithin(t, waits, testkit.Patience), context.Canceled)
		awaitWaiting(t, c, key, 0)

		require.NoError(t, mine.Unlock(t.Context()))
		require.NoError(t, theirs.RLock(t.Context()))
		info = locktest.Inspect(t, other, key)
		require.Nil(t, info.Holder)
		require.Len(t, info.Readers, 2)
		owners := map[string]int{info.Readers[0].Owner: info.Readers[0].Count, info.Readers[1].Owner: info.Readers[1].Count}
		require.Equal(t, map[string]int{"job:7|x": 1, "second": 1}, owners)
		require.Equal(t, []string{key}, list(t, c, key))
		require.NoError(t, mine.RUnlock(t.Context()))
		require.NoError(t, theirs.RUnlock(t.Context()))
		require.Equal(t, relock.Info{Key: key, State: relock.StateFree}, locktest.Inspect(t, other, key))
	})
}

func awaitWaiting(t testing.TB, c *relock.Client, key string, n int) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience,
		func() bool { return locktest.Inspect(t, c, key).Waiting == n }, fmt.Sprint(n, " waiting"))
}

// Inspect shows that a key has no expiry, whatever it is. It does not look like
// one that is about to end, nor like a free one.
func TestInspectWithoutAnExpiry(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	for kind, l := range map[string]relock.Mutex{
		"plain": relock.NewRedisLock("plain", c), "reentrant": relock.NewReentrantLock("reentrant", c),
		"read/write": relock.NewRWLock("read/write", c).RLocker(),
	} {
		require.NoError(t, l.Lock(t.Context()))
		require.Positive(t, locktest.Inspect(t, c, kind).Remaining)
		s.Do(t, "PERSIST", locktest.KeyOf(c, kind))
		info := locktest.Inspect(t, c, kind)
		require.Equal(t, relock.StateHeld, info.State)
		require.Equal(t, relock.Kind(kind), info.Kind)
		require.Equal(t, relock.NoExpiry, info.Remaining, kind)
	}
	s.Do(t, "SET", locktest.KeyOf(c, "foreign"), "x")
	info, err := c.Inspect(t.Context(), "foreign")
	require.ErrorIs(t, err, relock.ErrKeyConflict)
	require.Equal(t, relock.NoExpiry, info.Remaining)
	require.Zero(t, locktest.Inspect(t, c, "nothing").Remaining)
}

// A key that is not a lock is a conflict. A mistake is an error.
func TestInspectConflict(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
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
		setKey(t, s, c, name, write)
		require.ErrorIs(t, second(c.Inspect(t.Context(), name)), relock.ErrKeyConflict, name)
	}
	require.ErrorIs(t, second(c.Inspect(t.Context(), "")), relock.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, second(c.Inspect(ctx, "k")), context.Canceled)
}

// replying is a driver that replies to each request with the next reply, or the
// last one.
type replying struct {
	driver.Driver

	replies []any
}

func (d *replying) Send(context.Context, driver.Limits, driver.Request) driver.Result {
	reply := d.replies[0]
	if len(d.replies) > 1 {
		d.replies = d.replies[1:]
	}
	return driver.Result{Reply: reply, Answered: true}
}

// A reply that no script sends is a conflict. Notes about a hold are for
// people: without them there is only less to read.
func TestInspectUnreadableReply(t *testing.T) {
	t.Parallel()
	text := func(s string) any { return []byte(s) }
	free := []any{text("free"), text(""), int64(-2), text("false"), text("1"), int64(0), []any{}}
	foreign := []any{text("alien"), text(""), int64(-2), text("false"), text("1"), int64(0), []any{}}
	read := []any{text("read"), text("u"), text("1"), int64(100), int64(0), []any{}, []any{text("r:c:1")}, []any{nil}}
	with := func(parts []any, i int, part any) []any {
		parts = slices.Clone(parts)
		parts[i] = part
		return parts
	}
	inspect := func(replies ...any) (relock.Info, error) {
		c := locktest.Unconnected(t)
		own := locktest.Engine(c).Driver
		defer func() { locktest.Engine(c).Driver = own }()
		locktest.Engine(c).Driver = &replying{own, replies}
		return c.Inspect(t.Context(), "k")
	}
	require.NoError(t, second(inspect(free)))
	waiters := []any{text("not a wait"), text("1"), text("c:1:pu:1250"), text("x")}
	info, err := inspect(with(free, 6, waiters))
	require.NoError(t, err)
	require.Equal(t, []relock.Waiter{{Client: "c", Kind: relock.KindPlain}}, info.Waiters)
	for _, notes := range [][]any{{nil}, {text("1:0|x")}, {text("1:0|relock/1|s|c|h")}} {
		info, err := inspect(foreign, with(read, 7, notes))
		require.NoError(t, err, notes)
		require.Equal(t, []relock.Holder{{Client: "c", Count: 1}}, info.Readers, notes)
	}
	for _, reply := range []any{
		nil, int64(1),
		[]any{},
		with(free, 2, text("x")), with(free, 6, int64(1)), with(free, 1, []any{int64(1)}), with(free, 4, []any{}),
	} {
		require.ErrorIs(t, second(inspect(reply)), relock.ErrKeyConflict, reply)
	}
	for _, reply := range []any{
		nil, []any{}, with(read, 2, text("x")), with(read, 7, int64(1)), with(read, 7, []any{}), with(read, 0, text("alien")),
	} {
		require.ErrorIs(t, second(inspect(foreign, reply)), relock.ErrKeyConflict, reply)
	}
}

// List yields each lock of the pattern once, and each key that is something
// else with an error.
func TestList(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t, relock.WithKeyPrefix(`p*?[a]\:`))
	other := locktest.NewTestClient(t, s, relock.WithKeyPrefix("pXYa:"))
	require.NoError(t, relock.NewRedisLock("job:1", other).Lock(t.Context()))
	var names []string
	for i := range 700 { // more than one SCAN returns
		names = append(names, fmt.Sprintf("job:%03d", i))
		require.NoError(t, relock.NewRedisLock(names[i], c, relock.WithWatchdog(time.Minute)).Lock(t.Context()))
	}
	require.NoError(t, relock.NewReentrantLock("account", c, relock.WithFencing()).Lock(t.Context()))
	require.Equal(t, names, list(t, c, "job:*"))
	require.Equal(t, []string{"account"}, list(t, c, "acc*t"))
	require.Empty(t, list(t, c, "nothing"))
	refused := 0
	for _, err := range c.List(t.Context(), "") {
		require.ErrorIs(t, err, relock.ErrInvalid)
		refused++
	}
	require.Equal(t, 1, refused, "no pattern")
	require.Equal(t, append([]string{"account"}, names...), list(t, c, "*"))
	for _, err := range c.List(t.Context(), "job:*") {
		require.NoError(t, err)
		break // ends it
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs []error
	for _, err := range c.List(ctx, "job:*") {
		cancel()
		errs = append(errs, err)
	}
	require.Len(t, errs, 2, "an error ends the list")
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], context.Canceled)

	foreign := []string{"", "}x", "alien", strings.Repeat("x", lockspec.MaxKey+1)} // three of them no lock can have
	for _, name := range foreign {
		s.Do(t, "SET", locktest.KeyOf(c, name), "x")
	}
	var conflicts, locks []string
	for info, err := range c.List(t.Context(), "*") {
		if err == nil {
			locks = append(locks, info.Key)
			continue
		}
		require.ErrorIs(t, err, relock.ErrKeyConflict)
		conflicts = append(conflicts, info.Key)
	}
	require.Len(t, locks, len(names)+1)
	require.ElementsMatch(t, foreign, conflicts)
}

// list returns the names of the locks that are held.
func list(t testing.TB, c *relock.Client, pattern string) (names []string) {
	t.Helper()
	for info, err := range c.List(t.Context(), pattern) {
		require.NoError(t, err)
		require.NotEqual(t, relock.StateFree, info.State)
		names = append(names, info.Key)
	}
	slices.Sort(names)
	return names
}

// Keys of other programs cost a round trip for 500 of them.
func TestListBesideForeignKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := locktest.CloseLater(t)(relock.NewClient(proxy.Network, proxy.Address, ""))
	require.NoError(t, relock.NewRedisLock("key", c).Lock(t.Context()))
	s.Do(t, "EVAL", `for i = 1, 20000 do redis.call('SET', 'session:' .. i, 'x') end`, 0)
	require.Equal(t, []string{"key"}, list(t, c, "*"))
	scans := proxy.Count(faults.Command("SCAN"))
	require.LessOrEqual(t, scans, 20_000/500+2)
	require.GreaterOrEqual(t, scans, 20_000/1000, "a SCAN keeps the server from others")
}
