package relock

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestNewMakesNoNetworkCall(t *testing.T) {
	t.Parallel()
	address := closedPort(t)
	dials := 0
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { dials++; return nil, errors.New("dialled") }}
	for name, newClient := range map[string]func() (*Client, error){
		"NewClient":     func() (*Client, error) { return NewClient("tcp", address, "password", WithMaxActive(3)) },
		"NewClientURL":  func() (*Client, error) { return NewClientURL("rediss://user:password@" + address + "/3") },
		"NewClientPool": func() (*Client, error) { return NewClientPool(pool) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newClient()
			require.NoError(t, err)
			require.NoError(t, NewRedisLock("k", c).Validate())
			require.Equal(t, 0, poolOf(c).ActiveCount())
			require.Zero(t, dials)
			require.NoError(t, c.Close())
			require.Equal(t, 0, poolOf(c).ActiveCount())
		})
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	require.NoError(t, c.Ping(t.Context()))
	require.NoError(t, c.Ping(unbounded(t)))
}

func TestSetNEX(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	key := "raw:" + uuid.NewString()

	done, err := c.SetNEX(t.Context(), key, "first", 1234*time.Millisecond)
	require.NoError(t, err)
	require.True(t, done)
	left, err := redis.Int64(s.Do(t, "PTTL", key), nil)
	require.NoError(t, err)
	require.LessOrEqual(t, left, int64(1234))
	require.Greater(t, left, int64(234), "the expiry counts in milliseconds")

	done, err = c.SetNEX(unbounded(t), key, "second", time.Minute)
	require.NoError(t, err, "a key that is taken is no error")
	require.False(t, done)
	value, err := redis.String(s.Do(t, "GET", key), nil)
	require.NoError(t, err)
	require.Equal(t, "first", value)
	left, err = redis.Int64(s.Do(t, "PTTL", key), nil)
	require.NoError(t, err)
	require.LessOrEqual(t, left, int64(1234), "nothing of the second one was done")

	s.Do(t, "DEL", key)
	done, err = c.SetNEX(t.Context(), key, "third", 10*time.Millisecond)
	require.NoError(t, err)
	require.True(t, done)
	testkit.Eventually(t, time.Second, func() bool { return s.Do(t, "EXISTS", key) == int64(0) }, "it did not expire")
}

func TestSetNEXRefusesExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	key := "raw:" + uuid.NewString()
	for _, expiry := range []time.Duration{0, -1, -time.Hour, 1, 9 * time.Millisecond, 10500 * time.Microsecond, 1<<63 - 1} {
		t.Run(expiry.String(), func(t *testing.T) {
			done, err := c.SetNEX(t.Context(), key, "value", expiry)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "expiry")
			require.False(t, done)
			require.Equal(t, int64(0), s.Do(t, "EXISTS", key))
		})
	}
	require.Equal(t, 0, poolOf(c).ActiveCount(), "nothing was sent")
}

func TestEval(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	for _, tt := range []struct {
		name, source string
		want         any
	}{
		{"nil", "return nil", nil},
		{"false", "return false", nil},
		{"true", "return true", int64(1)},
		{"number", "return 41.9", int64(41)},
		{"string", "return 'text'", "text"},
		{"empty string", "return ''", ""},
		{"status", "return redis.status_reply('FINE')", "FINE"},
		{"binary", "return '\\0\\r\\n\\255'", "\x00\r\n\xff"},
		{"empty list", "return {}", []any{}},
		{"nested", "return {1, {'two', {3, false}}, redis.status_reply('four')}", []any{int64(1), []any{"two", []any{int64(3), nil}}, "four"}},
		{"keys and arguments", "return {KEYS[1], KEYS[2], ARGV[1], ARGV[2]}", []any{"a", "{b}", "7", "\x00"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := NewScript(tt.source)
			for range 2 { // in full, then by digest
				got, err := c.Eval(t.Context(), script, []string{"a", "{b}"}, 7, "\x00")
				require.NoError(t, err)
				require.Equal(t, tt.want, got)
			}
		})
	}
}

// The answer is nil, int64, string or []any of these, whatever is in it.
func TestEvalErrorInsideAList(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	got, err := c.Eval(t.Context(), NewScript("return {1, redis.error_reply('ERR inner')}"), nil)
	if err != nil {
		require.ErrorContains(t, err, "ERR inner")
		return
	}
	require.Equal(t, []any{int64(1), "ERR inner"}, got)
}

func TestEvalErrors(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	for _, tt := range []struct{ name, source, want string }{
		{"own", "return redis.error_reply('MINE went wrong')", "MINE went wrong"},
		{"raised", "error({err='MINE raised'})", "MINE raised"},
		{"of a command", "return redis.call('HGET', KEYS[1])", "Wrong number of args"},
		{"does not compile", "this is not lua", "Error compiling script"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.Eval(t.Context(), NewScript(tt.source), []string{"some key"})
			require.Nil(t, got)
			require.ErrorContains(t, err, tt.want)
			var line redis.Error
			require.ErrorAs(t, err, &line)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "eval", e.Op)
			require.Equal(t, "some key", e.Key)
			require.False(t, IsRetryableErr(err))
		})
	}
	for script, mistake := range map[*Script]string{nil: "script: is nil", {}: "script: was not made by NewScript"} {
		_, err := c.Eval(t.Context(), script, nil)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, mistake)
	}
}

// A server that forgets its scripts all the time costs no error, nor a hold that is being renewed.
func TestScriptFlushCostsNoError(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	held, err := NewReentrantLock("held", c, WithWatchdog(2*time.Second)).Acquire(t.Context())
	require.NoError(t, err)

	stop := make(chan struct{})
	flushed := testkit.Async(t, func() error {
		conn := s.Dial(t)
		defer conn.Close() //nolint:errcheck // nothing is pending
		pause := time.NewTicker(time.Millisecond)
		defer pause.Stop()
		for {
			if _, err := conn.Do("SCRIPT", "FLUSH"); err != nil {
				return err
			}
			select {
			case <-pause.C:
			case <-stop:
				return nil
			case <-t.Context().Done():
				return nil
			}
		}
	})
	plain, reentrant, script := NewRedisLock("p", c), owned("me", NewReentrantLock("r", c)), NewScript("return {ARGV[1]}")
	for i := range 100 {
		for _, l := range []Mutex{plain, reentrant} {
			require.NoError(t, l.Lock(t.Context()))
			require.NoError(t, l.Unlock(t.Context()))
		}
		got, err := c.Eval(t.Context(), script, nil, i)
		require.NoError(t, err)
		require.Equal(t, []any{strconv.Itoa(i)}, got)
	}
	for range 9 { // three leases
		awaitRenewal(t, held, 5*time.Second)
	}
	require.NoError(t, held.Err())
	close(stop)
	require.NoError(t, testkit.ResultWithin(t, flushed, time.Second))
	require.NoError(t, held.Unlock(t.Context()))
}
