package scripttest

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// Tests of the scripts: requests that are lost, late, doubled or out of order.

// Bench runs scripts on one key of a real server.
type Bench struct {
	testing.TB
	Conn redis.Conn
	Key  string
}

// NewBench returns a bench with a key that is named after the test.
func NewBench(t testing.TB, s *redistest.Server) *Bench {
	b := &Bench{TB: t, Conn: s.Dial(t), Key: "{" + t.Name() + "}"}
	t.Cleanup(func() { _ = b.Conn.Close() })
	return b
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
func (b *Bench) Try(s script.Call) (any, error) {
	s.Key = b.Key
	r := s.BySource()
	return b.Conn.Do(r.Cmd, r.Args...)
}

// Run runs a script whose reply must be a number.
func (b *Bench) Run(s script.Call) int64 {
	b.Helper()
	answer, err := redis.Int64(b.Try(s))
	require.NoError(b, err)
	return answer
}

// SetUp brings the key into a state.
func (b *Bench) SetUp(steps []script.Call) {
	b.Helper()
	b.Do("DEL", b.Key)
	for _, s := range steps {
		require.Equal(b, int64(script.Ours), b.Run(s), "set up")
	}
}

// Absent is the time to live of a key that does not exist.
const Absent = time.Duration(-2)

// KeyState is the content of a key and its time to live. That is -1 if the key
// would stay forever.
type KeyState struct {
	Content any
	TTL     time.Duration
}

// State returns what the key holds now.
func (b *Bench) State() KeyState {
	b.Helper()
	reply, err := redis.Values(b.Do("EVAL", snapshotSource, 1, b.Key), nil)
	require.NoError(b, err)
	s := KeyState{TTL: time.Duration(reply[0].(int64))}
	if s.TTL >= 0 {
		s.TTL *= time.Millisecond
	}
	switch content := reply[1].(type) {
	case []byte:
		s.Content = string(content)
	case []any:
		s.Content, err = redis.StringMap(content, nil)
		require.NoError(b, err)
	}
	return s
}

// snapshotSource returns the time to live and the content. A string is returned
// as it is, a hash and a sorted set as a list, anything else as a dump.
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

// RequireSame checks that nothing changed except that time passed.
func RequireSame(t testing.TB, before, after KeyState) {
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

// Durations of the scripts' tests: a lease, a longer one, and how long a test
// may take.
const (
	Lease     = 20 * time.Second
	LongLease = 60 * time.Second
	Keep      = 5 * time.Second
	Slack     = 4 * time.Second
)

// The holds of a plain lock: two of our own, and one of another client.
const (
	Plain1 = "relock/1|p|h1|c1|host|1|label|1"
	Plain2 = "relock/1|p|h2|c1|host|1|label|2"
	Plain3 = "relock/1|p|h3|c2|host|2|label|3"
)

// AcquireOf returns the request that acquires a plain lock.
func AcquireOf(value, earlier string, lease time.Duration) script.Call {
	return script.Call{Script: script.Acquire, Args: []any{value, earlier, lease.Milliseconds()}}
}

// RenewOf returns the request that renews a plain lock.
func RenewOf(value string, lease time.Duration) script.Call {
	return script.Call{Script: script.Renew, Args: []any{value, lease.Milliseconds()}}
}

// ReleaseOf returns the request that releases a plain lock.
func ReleaseOf(value string, keep time.Duration) script.Call {
	return script.Call{Script: script.Release, Args: []any{value, keep.Milliseconds(), lockspec.KeptValue(value)}}
}

// The owners of a reentrant lock and their holds: two of our own, and one of
// another client.
const (
	OwnerUs   = "c1:g:1"
	OwnerThem = "c2:g:1"
	Hold1     = "h1"
	Hold2     = "h2"
	Hold3     = "h3"
)

// ReentrantAcquireOf returns the request that acquires a reentrant lock.
func ReentrantAcquireOf(owner, hold string, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantAcquire, Args: []any{owner, hold, lease.Milliseconds(), "info"}}
}

// EnterOf returns the request of OwnerUs for count levels.
func EnterOf(hold string, count, seq int, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantEnter, Args: []any{OwnerUs, hold, count, seq, lease.Milliseconds()}}
}

// ReentrantRenewOf returns the request that renews a reentrant lock.
func ReentrantRenewOf(hold string, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRenew, Args: []any{hold, lease.Milliseconds()}}
}

// ReentrantReleaseOf returns the release request of OwnerUs.
func ReentrantReleaseOf(hold string, count, seq int, keep time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRelease, Args: []any{OwnerUs, hold, count, seq, keep.Milliseconds()}}
}

// AndThen returns the steps followed by more.
func AndThen(steps []script.Call, more ...script.Call) []script.Call {
	return append(append([]script.Call(nil), steps...), more...)
}

// The states of a key. Each change of a reentrant hold has the number that the
// owner would give it.
var (
	NoKey     []script.Call
	PlainHeld = []script.Call{AcquireOf(Plain1, "", Lease)}
	PlainNext = AndThen(PlainHeld, ReleaseOf(Plain1, 0), AcquireOf(Plain2, "", Lease))
	PlainTook = AndThen(PlainHeld, ReleaseOf(Plain1, 0), AcquireOf(Plain3, "", Lease))
	PlainKept = AndThen(PlainHeld, ReleaseOf(Plain1, Keep))

	HeldOnce  = []script.Call{ReentrantAcquireOf(OwnerUs, Hold1, Lease)}
	HeldTwice = AndThen(HeldOnce, EnterOf(Hold1, 2, 2, Lease))
	HeldThree = AndThen(HeldTwice, EnterOf(Hold1, 3, 3, Lease))
	HeldBack  = AndThen(HeldTwice, ReentrantReleaseOf(Hold1, 1, 3, 0))
	HeldAgain = AndThen(HeldBack, EnterOf(Hold1, 2, 4, Lease))
	HeldNext  = AndThen(HeldOnce, ReentrantReleaseOf(Hold1, 0, 2, 0), ReentrantAcquireOf(OwnerUs, Hold2, Lease))
	HeldNext2 = AndThen(HeldNext, EnterOf(Hold2, 2, 2, Lease))
	HeldOther = AndThen(HeldOnce, ReentrantReleaseOf(Hold1, 0, 2, 0), ReentrantAcquireOf(OwnerThem, Hold3, Lease))
	HeldKept  = AndThen(HeldOnce, ReentrantReleaseOf(Hold1, 0, 2, Keep))
)
