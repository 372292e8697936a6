package scripttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// Multi runs the script of a MultiLock on several keys of a real server.
type Multi struct {
	testing.TB
	Conn redis.Conn // runs the script
	all  redis.Conn // has all permissions
	Keys []string
}

// NewMulti returns a bench with n keys.
func NewMulti(t testing.TB, s *redistest.Server, n int) *Multi {
	b := &Multi{TB: t, Conn: s.Dial(t), all: s.Dial(t)}
	t.Cleanup(func() { _ = b.Conn.Close(); _ = b.all.Close() })
	for i := range n {
		b.Keys = append(b.Keys, fmt.Sprintf("{%s}%d", t.Name(), i+1))
	}
	_, err := b.all.Do("DEL", redis.Args{}.AddFlat(b.Keys)...)
	require.NoError(t, err)
	return b
}

// Do sends a command and requires that it succeeds.
func (b *Multi) Do(command string, args ...any) any {
	b.Helper()
	reply, err := b.all.Do(command, args...)
	require.NoError(b, err)
	return reply
}

// Try runs the script on the keys.
func (b *Multi) Try(keys []string, args ...any) (any, error) {
	r := script.MultiAcquire.BySource(keys, args)
	return b.Conn.Do(r.Cmd, r.Args...)
}

// Acquire returns the script's reply to a call that keeps nothing.
func (b *Multi) Acquire(value string, lease time.Duration, own int, earlier string) []int64 {
	b.Helper()
	return b.AcquireOrKeep(value, lease, own, earlier, "", 0)
}

// AcquireOrKeep is Acquire by a call that has kept keys under the value kept.
// It keeps keys for the duration keep.
func (b *Multi) AcquireOrKeep(value string, lease time.Duration, own int, earlier, kept string, keep time.Duration) []int64 {
	b.Helper()
	keys := b.Keys
	if own > 0 {
		key := keys[own-1]
		keys = append([]string{key, key + script.QueueSuffix, key + script.HeartbeatSuffix}, keys...)
	}
	answer, err := redis.Int64s(b.Try(keys, value, lease.Milliseconds(), own, earlier, len(b.Keys), kept, keep.Milliseconds()))
	require.NoError(b, err)
	return answer
}

// Put sets what the keys hold: a value, "hash" for a hash, "" for nothing.
func (b *Multi) Put(values ...string) {
	b.Helper()
	for i, value := range values {
		b.Do("DEL", b.Keys[i])
		switch {
		case value == "hash":
			b.Do("HSET", b.Keys[i], "field", 1)
		case value != "":
			b.Do("SET", b.Keys[i], value, "PX", Lease.Milliseconds())
		}
	}
}

// Holds returns what the keys hold, in the notation of Put.
func (b *Multi) Holds() (all []string) {
	b.Helper()
	for _, key := range b.Keys {
		kind, err := redis.String(b.Do("TYPE", key), nil)
		require.NoError(b, err)
		value := strings.TrimSuffix(kind, "none")
		if kind == "string" {
			value, err = redis.String(b.Do("GET", key), nil)
			require.NoError(b, err)
		}
		all = append(all, value)
	}
	return all
}

// Left returns the time to live of the n-th key.
func (b *Multi) Left(n int) time.Duration {
	b.Helper()
	ms, err := redis.Int64(b.Do("PTTL", b.Keys[n]), nil)
	require.NoError(b, err)
	return time.Duration(ms) * time.Millisecond
}
