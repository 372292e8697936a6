package scripttest

import (
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// RequireTTL checks the lock's time to live.
func (b *Queue) RequireTTL(want time.Duration) {
	b.Helper()
	RequireExpiry(b, want, b.State().TTL)
}

// RequireWaiting checks that a reply says that the wait is in the queue, and
// how long the lock lasts. It returns the wait's ticket.
func (b *Queue) RequireWaiting(w Wait, left time.Duration, answer []string) string {
	b.Helper()
	require.Len(b, answer, 4)
	require.Equal(b, "0", answer[0])
	require.Contains(b, b.Waits(), string(w))
	require.Equal(b, strconv.Itoa(len(b.Waits())-1), answer[3], "others in the queue")
	require.Equal(b, string(b.Do("ZSCORE", b.QueueKey(), string(w)).([]byte)), answer[1])
	ms, err := strconv.Atoi(answer[2])
	require.NoError(b, err)
	RequireExpiry(b, left, time.Duration(ms)*time.Millisecond)
	return answer[1]
}

// All returns everything that is stored for the lock.
func (b *Queue) All() QueueState {
	b.Helper()
	waits, err := redis.Strings(b.Do("ZRANGE", b.QueueKey(), 0, -1, "WITHSCORES"), nil)
	require.NoError(b, err)
	fields, err := redis.Strings(b.Do("HKEYS", b.BeatsKey()), nil)
	require.NoError(b, err)
	return QueueState{b.State().Content, waits, fields, b.Field("t")}
}

// QueueState is the content of the three keys, without the times of the
// heartbeats.
type QueueState struct {
	Lock   any
	waits  []string
	fields []string
	newest string
}

// RequireHandedTo checks that the lock is reserved for the wait, or free for
// Nobody. It also checks the waits that are left.
func (b *Queue) RequireHandedTo(chosen Wait, left []Wait) {
	b.Helper()
	want := []string{}
	for _, w := range left {
		want = append(want, string(w))
	}
	require.Equal(b, want, b.Waits())
	if chosen == Nobody {
		require.Empty(b, b.Lock())
		if len(left) == 0 {
			require.Equal(b, int64(0), b.Do("EXISTS", b.BeatsKey()), "nobody waits, and the beats are still there")
		}
		return
	}
	require.Equal(b, chosen.Reserved(), b.Lock())
	require.LessOrEqual(b, b.State().TTL, Claim, "longer than the claim lease")
	require.Greater(b, b.State().TTL, Claim-Slack)
}

// Deny makes the scripts run with fewer permissions from now on. The test keeps
// its own.
func (b *Queue) Deny(s *redistest.Server, rules ...any) {
	b.Helper()
	s.Do(b, "ACL", append([]any{"SETUSER", "less", "reset", "on", "nopass", "~*", "&*", "+@all"}, rules...)...)
	conn := s.Dial(b)
	_, err := conn.Do("AUTH", "less", "")
	require.NoError(b, err)
	b.Less = conn
	b.Cleanup(func() { _ = conn.Close() })
}
