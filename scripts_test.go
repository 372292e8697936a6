package relock

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// The scripts by themselves: requests that are lost, late, doubled or out of order.

// scriptBench runs scripts on one key of a real server.
type scriptBench struct {
	testing.TB
	conn redis.Conn
	key  string
}

func newScriptBench(t testing.TB, s *redistest.Server) *scriptBench {
	b := &scriptBench{TB: t, conn: s.Dial(t), key: "{" + t.Name() + "}"}
	t.Cleanup(func() { _ = b.conn.Close() })
	return b
}

func (b *scriptBench) do(command string, args ...any) any {
	b.Helper()
	reply, err := b.conn.Do(command, args...)
	require.NoError(b, err, command)
	return reply
}

func (b *scriptBench) content(key string) string { return redistest.ContentOver(b, b.conn, key) }

func (b *scriptBench) try(s script.Call) (any, error) {
	s.Key = b.key
	r := s.BySource()
	return b.conn.Do(r.Cmd, r.Args...)
}

func (b *scriptBench) run(s script.Call) int64 {
	b.Helper()
	answer, err := redis.Int64(b.try(s))
	require.NoError(b, err)
	return answer
}

// setUp brings the key into a state.
func (b *scriptBench) setUp(steps []script.Call) {
	b.Helper()
	b.do("DEL", b.key)
	for _, s := range steps {
		require.Equal(b, int64(script.Ours), b.run(s), "set up")
	}
}

// absent is what is left of the expiry of a key that is not there.
const absent = time.Duration(-2)

// keyState is what the key holds, and what is left of its expiry: -1 when it would stay for ever.
type keyState struct {
	content any
	ttl     time.Duration
}

func (b *scriptBench) state() keyState {
	b.Helper()
	reply, err := redis.Values(b.do("EVAL", snapshotSource, 1, b.key), nil)
	require.NoError(b, err)
	s := keyState{ttl: time.Duration(reply[0].(int64))}
	if s.ttl >= 0 {
		s.ttl *= time.Millisecond
	}
	switch content := reply[1].(type) {
	case []byte:
		s.content = string(content)
	case []any:
		s.content, err = redis.StringMap(content, nil)
		require.NoError(b, err)
	}
	return s
}

// snapshotSource returns what is left of the expiry, and a string as it is, a hash and a sorted set as a list and anything else as a dump.
const snapshotSource = `
local kind, content = redis.call('TYPE', KEYS[1]).ok, false
if kind == 'string' then
  content = redis.call('GET', KEYS[1])
elseif kind == 'hash' then
  content = redis.call('HGETALL', KEYS[1])
elseif kind == 'zset' then
  content = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
elseif kind ~= 'none' then
  content = redis.call('DUMP', KEYS[1])
end
return {redis.call('PTTL', KEYS[1]), content}`

// requireSame checks that nothing happened but that time went by.
func requireSame(t testing.TB, before, after keyState) {
	t.Helper()
	require.Equal(t, before.content, after.content)
	requireExpiry(t, before.ttl, after.ttl)
}

func requireExpiry(t testing.TB, want, got time.Duration) {
	t.Helper()
	if want < 0 {
		require.Equal(t, want, got, "expiry")
		return
	}
	require.LessOrEqual(t, got, want, "expiry")
	require.Greater(t, got, want-scriptSlack, "expiry")
}

// Of the scripts' tests: a lease, one that is longer, and the time that a test may take.
const (
	scriptLease = 20 * time.Second
	longLease   = 60 * time.Second
	scriptKeep  = 5 * time.Second
	scriptSlack = 4 * time.Second
)

// The holds of a plain lock: two of ours and another's.
const (
	plain1 = "relock/1|p|h1|c1|host|1|label|1"
	plain2 = "relock/1|p|h2|c1|host|1|label|2"
	plain3 = "relock/1|p|h3|c2|host|2|label|3"
)

func acquireOf(value, earlier string, lease time.Duration) script.Call {
	return script.Call{Script: script.Acquire, Args: []any{value, earlier, lease.Milliseconds()}}
}

func renewOf(value string, lease time.Duration) script.Call {
	return script.Call{Script: script.Renew, Args: []any{value, lease.Milliseconds()}}
}

func releaseOf(value string, keep time.Duration) script.Call {
	return script.Call{Script: script.Release, Args: []any{value, keep.Milliseconds(), lockspec.KeptValue(value)}}
}

// The owners of a reentrant lock, and their holds: two of ours and another's.
const (
	ownerUs, ownerThem  = "c1:g:1", "c2:g:1"
	hold1, hold2, hold3 = "h1", "h2", "h3"
)

func reentrantAcquireOf(owner, hold string, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantAcquire, Args: []any{owner, hold, lease.Milliseconds(), "info"}}
}

func enterOf(hold string, count, seq int, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantEnter, Args: []any{ownerUs, hold, count, seq, lease.Milliseconds()}}
}

func reentrantRenewOf(hold string, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRenew, Args: []any{hold, lease.Milliseconds()}}
}

func reentrantReleaseOf(hold string, count, seq int, keep time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRelease, Args: []any{ownerUs, hold, count, seq, keep.Milliseconds()}}
}

// andThen returns the steps and more.
func andThen(steps []script.Call, more ...script.Call) []script.Call {
	return append(append([]script.Call(nil), steps...), more...)
}

// The states of a key. Each reentrant change has the number that the owner would give it.
var (
	noKey     []script.Call
	plainHeld = []script.Call{acquireOf(plain1, "", scriptLease)}
	plainNext = andThen(plainHeld, releaseOf(plain1, 0), acquireOf(plain2, "", scriptLease))
	plainTook = andThen(plainHeld, releaseOf(plain1, 0), acquireOf(plain3, "", scriptLease))
	plainKept = andThen(plainHeld, releaseOf(plain1, scriptKeep))

	heldOnce  = []script.Call{reentrantAcquireOf(ownerUs, hold1, scriptLease)}
	heldTwice = andThen(heldOnce, enterOf(hold1, 2, 2, scriptLease))
	heldThree = andThen(heldTwice, enterOf(hold1, 3, 3, scriptLease))
	heldBack  = andThen(heldTwice, reentrantReleaseOf(hold1, 1, 3, 0))
	heldAgain = andThen(heldBack, enterOf(hold1, 2, 4, scriptLease))
	heldNext  = andThen(heldOnce, reentrantReleaseOf(hold1, 0, 2, 0), reentrantAcquireOf(ownerUs, hold2, scriptLease))
	heldNext2 = andThen(heldNext, enterOf(hold2, 2, 2, scriptLease))
	heldOther = andThen(heldOnce, reentrantReleaseOf(hold1, 0, 2, 0), reentrantAcquireOf(ownerThem, hold3, scriptLease))
	heldKept  = andThen(heldOnce, reentrantReleaseOf(hold1, 0, 2, scriptKeep))
)
