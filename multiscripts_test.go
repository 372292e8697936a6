package relock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// multiScripts runs the script of a MultiLock on several keys of a real server.
type multiScripts struct {
	testing.TB
	conn redis.Conn // of the script
	all  redis.Conn // may do all
	keys []string
}

func newMultiScripts(t testing.TB, s *redistest.Server, n int) *multiScripts {
	b := &multiScripts{TB: t, conn: s.Dial(t), all: s.Dial(t)}
	t.Cleanup(func() { _ = b.conn.Close(); _ = b.all.Close() })
	for i := range n {
		b.keys = append(b.keys, fmt.Sprintf("{%s}%d", t.Name(), i+1))
	}
	_, err := b.all.Do("DEL", redis.Args{}.AddFlat(b.keys)...)
	require.NoError(t, err)
	return b
}

func (b *multiScripts) do(command string, args ...any) any {
	b.Helper()
	reply, err := b.all.Do(command, args...)
	require.NoError(b, err)
	return reply
}

func (b *multiScripts) try(keys []string, args ...any) (any, error) {
	r := script.MultiAcquire.BySource(keys, args)
	return b.conn.Do(r.Cmd, r.Args...)
}

// acquire returns what the script answers, of a call that keeps nothing.
func (b *multiScripts) acquire(value string, lease time.Duration, own int, earlier string) []int64 {
	b.Helper()
	return b.acquireOrKeep(value, lease, own, earlier, "", 0)
}

// acquireOrKeep is acquire by a call that has kept keys under the value kept,
// and keeps keys for so long.
func (b *multiScripts) acquireOrKeep(value string, lease time.Duration, own int, earlier, kept string, keep time.Duration) []int64 {
	b.Helper()
	keys := b.keys
	if own > 0 {
		key := keys[own-1]
		keys = append([]string{key, key + script.QueueSuffix, key + script.HeartbeatSuffix}, keys...)
	}
	answer, err := redis.Int64s(b.try(keys, value, lease.Milliseconds(), own, earlier, len(b.keys), kept, keep.Milliseconds()))
	require.NoError(b, err)
	return answer
}

// put sets what the keys hold: a value, "hash" for one, "" for nothing.
func (b *multiScripts) put(values ...string) {
	b.Helper()
	for i, value := range values {
		b.do("DEL", b.keys[i])
		switch {
		case value == "hash":
			b.do("HSET", b.keys[i], "field", 1)
		case value != "":
			b.do("SET", b.keys[i], value, "PX", scriptLease.Milliseconds())
		}
	}
}

// holds is what the keys hold, as put names it.
func (b *multiScripts) holds() (all []string) {
	b.Helper()
	for _, key := range b.keys {
		kind, err := redis.String(b.do("TYPE", key), nil)
		require.NoError(b, err)
		value := strings.TrimSuffix(kind, "none")
		if kind == "string" {
			value, err = redis.String(b.do("GET", key), nil)
			require.NoError(b, err)
		}
		all = append(all, value)
	}
	return all
}

func (b *multiScripts) left(n int) time.Duration {
	b.Helper()
	ms, err := redis.Int64(b.do("PTTL", b.keys[n]), nil)
	require.NoError(b, err)
	return time.Duration(ms) * time.Millisecond
}

// All keys are taken or none, whatever they hold.
func TestMultiScript(t *testing.T) {
	s := redistest.Shared(t)
	const (
		fair     = "relock/1|f|h4|c4|host|4|label|4"
		kept     = "relock/1|k|h5|c5|host|5|label|5"
		reserved = "relock/1|w|c6:1:pu:1250"
		fairWait = "relock/1|w|c6:2:pf:1250"
		reenter  = "relock/1|w|c6:3:ru:1250"
	)
	for _, tt := range []struct {
		name    string
		before  []string
		own     int
		earlier string
		want    []int64
	}{
		{"all are free", []string{"", "", ""}, 0, "", []int64{1}},
		{"all are ours", []string{plain1, plain1, plain1}, 0, "", []int64{1}},
		{"some are ours", []string{"", plain1, ""}, 0, "", []int64{1}},
		{"the first is held", []string{plain3, "", ""}, 0, "", []int64{0, 1}},
		{"the last is held", []string{"", "", plain3}, 0, "", []int64{0, 3}},
		{"two are held", []string{"", plain3, plain3}, 0, "", []int64{0, 2}},
		{"held and ours", []string{plain1, plain3, ""}, 0, "", []int64{0, 2}},
		{"kept", []string{"", kept, ""}, 0, "", []int64{0, 2}},
		{"reserved", []string{reserved, "", ""}, 0, "", []int64{0, 1}},
		{"fair", []string{"", "", fair}, 0, "", []int64{-1, 3}},
		{"reserved for a fair one", []string{fairWait, "", ""}, 0, "", []int64{-1, 1}},
		{"reserved for a reentrant one", []string{"", reenter, ""}, 0, "", []int64{-1, 2}},
		{"something else", []string{"", "text", ""}, 0, "", []int64{-1, 2}},
		{"another type", []string{"", "hash", plain3}, 0, "", []int64{-1, 2}},
		{"ours, and another type", []string{plain1, "", "hash"}, 0, "", []int64{-1, 3}},
		{"the call has one by itself", []string{"", plain2, ""}, 2, plain2, []int64{1}},
		{"that one has ended", []string{"", "", ""}, 2, plain2, []int64{1}},
		{"that one is another's now", []string{"", plain3, ""}, 2, plain2, []int64{0, 2}},
		{"it is on another key", []string{"", plain2, ""}, 3, plain2, []int64{0, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newMultiScripts(t, s, 3)
			b.put(tt.before...)
			require.Equal(t, tt.want, b.acquire(plain1, longLease, tt.own, tt.earlier))
			if tt.want[0] != 1 {
				require.Equal(t, tt.before, b.holds())
				return
			}
			require.Equal(t, []string{plain1, plain1, plain1}, b.holds())
			for n := range b.keys {
				requireExpiry(t, longLease, b.left(n))
			}
			require.Equal(t, []int64{1}, b.acquire(plain1, longLease, tt.own, tt.earlier), "sent twice")
		})
	}
}

// A copy that comes late shortens nothing and takes nothing away.
func TestMultiScriptLateCopies(t *testing.T) {
	b := newMultiScripts(t, redistest.Shared(t), 2)
	require.Equal(t, []int64{1}, b.acquire(plain1, longLease, 0, ""))
	require.Equal(t, []int64{1}, b.acquire(plain1, scriptLease, 0, ""))
	requireExpiry(t, longLease, b.left(0))
	requireExpiry(t, longLease, b.left(1))
	b.put("", plain3)
	require.Equal(t, []int64{0, 2}, b.acquire(plain1, longLease, 0, ""), "another one is there")
	require.Equal(t, []string{"", plain3}, b.holds())
	requireExpiry(t, scriptLease, b.left(1))
}

// A bad argument is refused before anything is written.
func TestMultiScriptRefusesBadArguments(t *testing.T) {
	b := newMultiScripts(t, redistest.Shared(t), 2)
	good := []any{plain1, 60_000, 1, plain2, 2, plain3, 1000}
	keys := append([]string{b.keys[0], b.keys[0] + script.QueueSuffix, b.keys[0] + script.HeartbeatSuffix}, b.keys...)
	for i, bad := range [][]any{
		{},
		good[:1],
		good[:2],
		good[:3],
		good[:4],
		good[:5],
		good[:6],
		{"", 60_000, 0, "", 2, "", 0},
		{plain1, "x", 0, "", 2, "", 0},
		{plain1, 9, 0, "", 2, "", 0},
		{plain1, "1.5", 0, "", 2, "", 0},
		{plain1, 60_000, -1, "", 2, "", 0},
		{plain1, 60_000, "x", "", 2, "", 0},
		{plain1, 60_000, 3, plain2, 2, "", 0},
		{plain1, 60_000, 1, "", 2, "", 0},
		{plain1, 60_000, 0, "", 0, "", 0},
		{plain1, 60_000, 0, "", "x", "", 0},
		{plain1, 60_000, 1, plain2, 3, "", 0},
		{plain1, 60_000, 1, plain2, 2, "", -1},
		{plain1, 60_000, 1, plain2, 2, "", "x"},
	} {
		_, err := b.try(keys, bad...)
		var line redis.Error
		require.ErrorAs(t, err, &line, "%d", i)
		require.Equal(t, []string{"", ""}, b.holds(), "%d", i)
	}
	_, err := b.try(nil, good...)
	require.ErrorContains(t, err, "bad keys")
	many := newMultiScripts(t, redistest.Shared(t), 101)
	_, err = many.try(many.keys[:3], good...)
	require.ErrorContains(t, err, "bad keys")
	_, err = many.try(many.keys, plain1, 60_000, 0, "", 101, "", 0)
	require.ErrorContains(t, err, "bad arguments")
	answer, err := redis.Int64s(many.try(many.keys[:100], plain1, 60_000, 0, "", 100, "", 0))
	require.NoError(t, err)
	require.Equal(t, []int64{1}, answer)
}

// Without a permission, and without memory, nothing is taken.
func TestMultiScriptWithoutPermissionOrMemory(t *testing.T) {
	s := redistest.Start(t)
	for _, denied := range []string{"-mget", "-exists", "-set"} {
		b := newMultiScripts(t, s, 2)
		b.do("ACL", "SETUSER", "less", "reset", "on", "nopass", "~*", "&*", "+@all", denied)
		_, err := b.conn.Do("AUTH", "less", "any")
		require.NoError(t, err)
		_, err = b.try(b.keys, plain1, 60_000, 0, "", 2, "", 0)
		var line redis.Error
		require.ErrorAs(t, err, &line)
		require.True(t, driver.IsDenied(line), "%v", err)
		require.Equal(t, []string{"", ""}, b.holds())
	}
	b := newMultiScripts(t, s, 2)
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)
	_, err := b.try(b.keys, plain1, 60_000, 0, "", 2, "", 0)
	require.ErrorContains(t, err, "OOM")
	s.Do(t, "CONFIG", "SET", "maxmemory", 0)
	require.Equal(t, []string{"", ""}, b.holds())
}

// The largest lock keeps no server busy for long: no script takes 1ms.
func TestMultiLockOfAHundredKeysIsFast(t *testing.T) {
	for name, opts := range map[string][]LockOption{"plain": nil, "fenced": {WithFencing()}} {
		t.Run(name, func(t *testing.T) { hundredKeys(t, opts...) })
	}
}

func hundredKeys(t *testing.T, opts ...LockOption) {
	s := redistest.Start(t)
	c := newTestClient(t, s)
	var keys []string
	for n := range maxKeys {
		keys = append(keys, fmt.Sprintf("account:%03d", n))
	}
	l := NewMultiLock(keys, c, append(opts, WithWatchdog(3*time.Second))...)
	require.NoError(t, l.Do(t.Context(), nothing)) // the server knows the scripts now
	s.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 100_000)
	var best []time.Duration
	for range 30 {
		s.Do(t, "SLOWLOG", "RESET")
		h, err := l.Acquire(t.Context())
		require.NoError(t, err)
		awaitRenewal(t, h, 5*time.Second)
		require.NoError(t, h.Unlock(t.Context()))
		best = append(best, slices.Max(durations(t, s)))
		if slices.Min(best) < time.Millisecond {
			break
		}
	}
	t.Logf("the slowest script of each round: %v", best)
	require.Less(t, slices.Min(best), time.Millisecond) // the scripts always do the same: what is on top of that is the machine's
	requireNoQueues(t, s, c, keys...)
}

// Nor does a thousand levels of a reentrant or a read/write lock.
func TestThousandLevelsAreFast(t *testing.T) {
	for name, newLock := range map[string]func(*Client, ...LockOption) Mutex{
		"ReentrantLock": func(c *Client, opts ...LockOption) Mutex { return NewReentrantLock("k", c, opts...) },
		"RWLock":        func(c *Client, opts ...LockOption) Mutex { return NewRWLock("k", c, opts...) },
	} {
		t.Run(name, func(t *testing.T) { thousandLevels(t, newLock) })
	}
}

func thousandLevels(t *testing.T, newLock func(*Client, ...LockOption) Mutex) {
	const levels = 1000
	s := redistest.Start(t)
	c := newTestClient(t, s)
	l := newLock(c, WithExpiry(5*time.Minute))     // no renewal comes between
	require.NoError(t, l.Do(t.Context(), nothing)) // the server knows the scripts now
	require.NoError(t, l.Do(t.Context(), func(ctx context.Context) error { return l.Do(ctx, nothing) }))
	s.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 100_000)
	best := slices.Repeat([]time.Duration{time.Hour}, 2*levels) // of each script over all rounds, which do the same
	for range 10 {
		s.Do(t, "SLOWLOG", "RESET")
		for range levels {
			require.NoError(t, l.Lock(t.Context()))
		}
		for range levels {
			require.NoError(t, l.Unlock(t.Context()))
		}
		took := durations(t, s)
		require.Len(t, took, len(best))
		for n := range best {
			best[n] = min(best[n], took[n])
		}
		if slices.Max(best) < time.Millisecond {
			break
		}
	}
	t.Logf("the slowest script: %v", slices.Max(best))
	require.Less(t, slices.Max(best), time.Millisecond) // what single ones take on top of that is the machine's
}

// durations is how long each script took since SLOWLOG RESET, the newest first.
func durations(t testing.TB, s *redistest.Server) (all []time.Duration) {
	t.Helper()
	entries, err := redis.Values(s.Do(t, "SLOWLOG", "GET", -1), nil)
	require.NoError(t, err)
	for _, entry := range entries {
		fields, err := redis.Values(entry, nil)
		require.NoError(t, err)
		us, err := redis.Int64(fields[2], nil)
		require.NoError(t, err)
		words, err := redis.Strings(fields[3], nil)
		require.NoError(t, err)
		if words[0] == "EVALSHA" {
			all = append(all, time.Duration(us)*time.Microsecond)
		}
	}
	return all
}
