package relock_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestNewMakesNoNetworkCall(t *testing.T) {
	t.Parallel()
	address := locktest.ClosedPort(t)
	dials := 0
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { dials++; return nil, errors.New("dialled") }}
	own, ownErr := relock.NewClient("tcp", address, "password", relock.WithMaxActive(3))
	byURL, urlErr := relock.NewClientURL("rediss://user:password@" + address + "/3")
	byPool, poolErr := relock.NewClientPool(pool)
	require.NoError(t, errors.Join(ownErr, urlErr, poolErr))
	for _, c := range []*relock.Client{own, byURL, byPool} {
		require.NoError(t, relock.NewRedisLock("k", c).Validate())
		require.Equal(t, 0, locktest.PoolOf(c).Connections())
		require.Zero(t, dials)
		require.NoError(t, c.Close())
		require.Equal(t, 0, locktest.PoolOf(c).Connections())
	}
}

func TestSetNEX(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	key := "raw:" + uuid.NewString()
	set := func(value string, expiry time.Duration, want bool) {
		done, err := c.SetNEX(locktest.Unbounded(t), key, value, expiry)
		require.NoError(t, err)
		require.Equal(t, want, done, value)
	}
	set("first", 61234*time.Millisecond, true)
	left, err := redis.Int64(s.Do(t, "PTTL", key), nil)
	require.NoError(t, err)
	require.Greater(t, left, int64(31_234), "the expiry counts in milliseconds")
	set("second", time.Hour, false) // a key that is taken is no error
	require.Equal(t, []byte("first"), s.Do(t, "GET", key))
	left, err = redis.Int64(s.Do(t, "PTTL", key), nil)
	require.NoError(t, err)
	require.LessOrEqual(t, left, int64(61_234), "nothing of the second one was done")
	s.Do(t, "DEL", key)
	set("third", 10*time.Millisecond, true)
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "EXISTS", key) == int64(0) }, "it expires")
}

func TestSetNEXRefusesExpiry(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	key := "raw:" + uuid.NewString()
	for _, expiry := range []time.Duration{
		0, -1, -time.Hour, 1, 9 * time.Millisecond, 10500 * time.Microsecond, 1<<63 - 1,
	} {
		done, err := c.SetNEX(t.Context(), key, "value", expiry)
		require.ErrorIs(t, err, relock.ErrInvalid)
		require.ErrorContains(t, err, "expiry")
		require.False(t, done)
		require.Equal(t, int64(0), s.Do(t, "EXISTS", key), expiry)
	}
	require.Equal(t, 0, locktest.PoolOf(c).Connections(), "nothing was sent")
}

func TestEval(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t)
	require.NoError(t, c.Ping(locktest.Unbounded(t)))
	for source, want := range map[string]any{
		"return nil":                        nil,
		"return false":                      nil,
		"return true":                       int64(1),
		"return 41.9":                       int64(41),
		"return 'text'":                     "text",
		"return ''":                         "",
		"return redis.status_reply('FINE')": "FINE",
		"return '\\0\\r\\n\\255'":           "\x00\r\n\xff",
		"return {}":                         []any{},
		"return {1, {'two', {3, false}}, redis.status_reply('four')}": []any{
			int64(1), []any{"two", []any{int64(3), nil}}, "four",
		},
		"return {KEYS[1], KEYS[2], ARGV[1], ARGV[2]}": []any{"a", "{b}", "7", "\x00"},
	} {
		script := relock.NewScript(source)
		for n := range 3 { // in full, by digest, and after the server has forgotten it
			if n == 2 {
				s.Do(t, "SCRIPT", "FLUSH")
			}
			got, err := c.Eval(t.Context(), script, []string{"a", "{b}"}, 7, "\x00")
			require.NoError(t, err, source)
			require.Equal(t, want, got, source)
		}
	}
	// The reply is nil, int64, string or []any of these, also for an error in
	// it.
	got, err := c.Eval(t.Context(), relock.NewScript("return {1, redis.error_reply('ERR inner')}"), nil)
	if err != nil {
		require.ErrorContains(t, err, "ERR inner")
	} else {
		require.Equal(t, []any{int64(1), "ERR inner"}, got)
	}
}

func TestEvalErrors(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	for source, want := range map[string]string{
		"return redis.error_reply('MINE went wrong')": "MINE went wrong",
		"error({err='MINE raised'})":                  "MINE raised",
		"return redis.call('HGET', KEYS[1])":          "Wrong number of args",
		"this is not lua":                             "Error compiling script",
	} {
		got, err := c.Eval(t.Context(), relock.NewScript(source), []string{"some key"})
		require.Nil(t, got)
		require.ErrorContains(t, err, want)
		var line redis.Error
		require.ErrorAs(t, err, &line)
		e := asError(t, err)
		require.Equal(t, relock.Error{Op: "eval", Key: "some key", Err: e.Err}, *e)
		require.False(t, relock.IsRetryableErr(err))
	}
	for script, mistake := range map[*relock.Script]string{
		nil: "script: is nil", {}: "script: was not made by NewScript",
	} {
		requireMistakes(t, second(c.Eval(t.Context(), script, nil)), "eval", mistake)
	}
}

// Close releases what is held if the option is set. Otherwise it stays until
// its lease has expired.
func TestReleaseOnClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	watcher := locktest.NewTestClient(t, s)
	testkit.Each(t, map[string][]relock.ClientOption{
		"released": {relock.WithReleaseOnClose()}, "kept": nil,
	}, func(t *testing.T, name string, opts []relock.ClientOption) {
		c := locktest.Sibling(t, s, watcher, opts...)
		var holds []relock.Hold
		for i := range 250 {
			holds = append(holds, locktest.Take(t, relock.NewRedisLock(name+strings.Repeat("x", i), c).Acquire))
		}
		r := relock.NewReentrantLock(name+"r", c)
		require.NoError(t, r.Lock(t.Context()))
		require.NoError(t, r.Lock(t.Context()))
		minimum := relock.NewRedisLock(name+"m", c, relock.WithMinHold(time.Minute))
		require.NoError(t, minimum.Lock(t.Context()))
		waits := testkit.Async(t, func() error {
			return relock.NewRedisLock(name, watcher, relock.WithBlock()).Lock(t.Context())
		})
		awaitWaiting(t, watcher, name, 1)

		require.NoError(t, c.Close())
		for _, h := range holds {
			require.ErrorIs(t, h.Err(), relock.ErrClosed)
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrClosed)
		}
		if name == "kept" {
			require.Len(t, list(t, watcher, name+"*"), 252)
			require.NoError(t, watcher.ForceUnlock(t.Context(), name, "the test is over"))
		} else {
			testkit.Eventually(t, testkit.Patience, func() bool { return len(list(t, watcher, name+"*")) == 2 },
				"the minimum hold, and that of the waiter")
			require.Equal(t, relock.StateKept, locktest.Inspect(t, watcher, name+"m").State)
		}
		require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	})
}

// Close waits no longer for a server that does not answer than a command may
// take, however many holds there are. A new connection may need a login.
func TestReleaseOnCloseOfASilentServer(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]int{"no login": 0, "login": 1}, func(t *testing.T, _ string, database int) {
		c, proxy := locktest.Behind(t, redistest.Start(t), relock.WithDatabase(database), relock.WithReleaseOnClose())
		for i := range 350 {
			require.NoError(t, relock.NewRedisLock(strconv.Itoa(i), c).Lock(t.Context()))
		}
		const limit = 300 * time.Millisecond
		locktest.Engine(c).CommandTimeout = limit // of Close; the calls before it have more
		proxy.On(faults.Any, faults.Every, faults.DropRequest)
		clock := testkit.NewStopwatch(t)
		require.NoError(t, c.Close())
		clock.Within(limit + promptness)
	})
}
