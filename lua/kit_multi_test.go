package lua_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Multi runs the script of a MultiLock on several keys of a real server.
type Multi struct {
	*Queue // of the first key
	Keys   []string
}

// NewMulti returns a bench with n keys.
func NewMulti(t testing.TB, s *redistest.Server, n int) *Multi {
	b := &Multi{Queue: NewQueue(t, s)}
	for i := range n {
		b.Keys = append(b.Keys, b.Key+strings.Repeat("+", i))
	}
	b.Put(make([]string, n)...)
	return b
}

// CallOf returns the call of the script on some keys.
func (b *Multi) CallOf(keys []string, args ...any) script.Call {
	return script.Call{Script: script.MultiAcquire, Together: keys, Args: args}
}

// Try runs the script on some keys.
func (b *Multi) Try(keys []string, args ...any) (any, error) {
	return b.Bench.Try(b.CallOf(keys, args...))
}

// Acquire returns the script's reply to a call that keeps nothing.
func (b *Multi) Acquire(value string, lease time.Duration, own int, earlier string) []int64 {
	b.Helper()
	return b.AcquireOrKeep(value, lease, own, earlier, "", 0)
}

// AcquireOrKeep is Acquire by a call that has kept keys under the value kept.
// It keeps keys for the duration keep. The reply is without what a refusal says
// of the key.
func (b *Multi) AcquireOrKeep(
	value string, lease time.Duration, own int, earlier, kept string, keep time.Duration,
) []int64 {
	b.Helper()
	keys := b.Keys
	if own > 0 {
		key := keys[own-1]
		keys = append([]string{key, key + script.QueueSuffix, key + script.HeartbeatSuffix}, keys...)
	}
	answer, err := redis.Values(b.Try(keys, value, lease.Milliseconds(), own, earlier, len(b.Keys),
		kept, keep.Milliseconds()))
	require.NoError(b, err)
	numbers, err := redis.Int64s(answer[:min(3, len(answer))], nil)
	require.NoError(b, err)
	return numbers
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
			value = string(b.Do("GET", key).([]byte))
		}
		all = append(all, value)
	}
	return all
}
