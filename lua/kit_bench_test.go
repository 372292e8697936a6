package lua_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Bench runs scripts on one key of a real server.
type Bench struct {
	testing.TB
	Conn   redis.Conn
	Less   redis.Conn // if not nil, runs the scripts with fewer permissions
	Key    string
	server *redistest.Server
}

// NewBench returns a bench with a key that is named after the test.
func NewBench(t testing.TB, s *redistest.Server) *Bench {
	b := &Bench{TB: t, Conn: s.Dial(t), Key: "{" + t.Name() + "}", server: s}
	t.Cleanup(func() { _ = b.Conn.Close() })
	return b
}

// sender returns the connection that scripts use.
func (b *Bench) sender() redis.Conn {
	if b.Less != nil {
		return b.Less
	}
	return b.Conn
}

// Deny makes the scripts run as a user with fewer permissions from now on. The
// test keeps its own.
func (b *Bench) Deny(rules ...any) {
	b.Helper()
	b.server.Do(b, "ACL", append([]any{"SETUSER", b.Key, "reset", "on", "nopass", "~*", "&*", "+@all"}, rules...)...)
	conn := b.server.Dial(b)
	_, err := conn.Do("AUTH", b.Key, "")
	require.NoError(b, err)
	b.Less = conn
	b.Cleanup(func() {
		_ = conn.Close()
		b.server.Do(b, "ACL", "DELUSER", b.Key)
	})
}

// Now returns the time by the server's clock, in us.
func (b *Bench) Now() int64 {
	b.Helper()
	t, err := redis.Int64s(b.Do("TIME"), nil)
	require.NoError(b, err)
	return t[0]*1_000_000 + t[1]
}

// TTL returns how long a key lasts, or [Absent].
func (b *Bench) TTL(key string) time.Duration {
	b.Helper()
	ms := time.Duration(b.Do("PTTL", key).(int64))
	if ms < 0 {
		return ms
	}
	return ms * time.Millisecond
}

// Do sends a command and requires that it succeeds.
func (b *Bench) Do(command string, args ...any) any {
	b.Helper()
	reply, err := b.Conn.Do(command, args...)
	require.NoError(b, err, command)
	return reply
}

// Content returns what a key holds, as text.
func (b *Bench) Content(key string) string { return redistest.ContentOver(b, b.Conn, key) }

// Try runs a script on the key.
func (b *Bench) Try(s script.Call) (any, error) { return b.over(b.Conn, s) }

// over runs a script on the key over a connection. A MultiLock that names no
// keys has only this one.
func (b *Bench) over(conn redis.Conn, s script.Call) (any, error) {
	if s.Key = b.Key; s.Script == script.MultiAcquire && s.Together == nil {
		s.Together = []string{b.Key}
	}
	r := s.BySource()
	return conn.Do(r.Cmd, r.Args...)
}

// Run runs a script whose reply must be a number, or begin with one.
func (b *Bench) Run(s script.Call) int64 {
	b.Helper()
	reply, err := b.Try(s)
	require.NoError(b, err)
	code, err := strconv.ParseInt(texts(reply)[0], 10, 64)
	require.NoError(b, err)
	return code
}

// SetUp brings the key into a state by scripts.
func (b *Bench) SetUp(steps []script.Call) {
	b.Helper()
	b.Do("DEL", b.Key)
	for _, s := range steps {
		reply, err := b.Try(s)
		require.NoError(b, err, "set up")
		require.Equal(b, "1", texts(reply)[0], "set up")
	}
}

// texts returns the parts of a reply as text.
func texts(reply any) (all []string) {
	values, ok := reply.([]any)
	if !ok {
		values = []any{reply}
	}
	for _, value := range values {
		if text, ok := value.([]byte); ok {
			value = string(text)
		}
		all = append(all, fmt.Sprint(value))
	}
	return all
}

// State returns what the key holds now.
func (b *Bench) State() locktest.KeyState {
	b.Helper()
	return locktest.StateOf(b, b.Conn, b.Key)
}

// RequireSame checks that nothing changed except that time passed.
func RequireSame(t testing.TB, before, after locktest.KeyState) {
	t.Helper()
	require.Equal(t, before.Content, after.Content)
	RequireExpiry(t, before.TTL, after.TTL)
}

// RequireExpiry checks a time to live, with a tolerance of Slack.
func RequireExpiry(t testing.TB, want, got time.Duration) {
	t.Helper()
	if want < 0 {
		require.Equal(t, want, got, "expiry")
		return
	}
	require.LessOrEqual(t, got, want, "expiry")
	require.Greater(t, got, want-Slack, "expiry")
}
