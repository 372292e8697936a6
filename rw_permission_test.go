package relock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// What a Redis user needs for read/write locks, beside what waiting for the others needs.
const rwCommands = "+zrangebyscore +zrevrangebyscore +zcount +zremrangebyscore"

// With what the documentation names a read/write lock does all that it can, and nothing is denied on the way.
func TestRWLockLeastPrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rules := "on >secret resetkeys ~test:* resetchannels &test:* -@all +set +get +del +type +pttl +pexpire +hmget +hset +hdel +eval +evalsha +ping " +
		"+time +exists +hget +hrandfield +zadd +zcard +zrem +zrange +zscore +zmscore +zremrangebyrank +publish +subscribe " + rwCommands
	args := []any{"SETUSER", "app"}
	for _, rule := range strings.Fields(rules) {
		args = append(args, rule)
	}
	s.Do(t, "ACL", args...)
	s.Do(t, "ACL", "LOG", "RESET")
	var log logBuffer
	dial := func(prefix string) *Client {
		c, err := NewClient(s.Network, s.Address, "secret", WithUsername("app"), WithKeyPrefix(prefix), log.option())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	c := dial("test:rw:")
	q := &rwLine{&queueBench{TB: t, queueMode: queueMode{"RWLock", true}, server: s, clients: []*Client{c, dial("test:rw:")}, key: keyOf(c, queueKey)}}
	me := as(t, "me")
	l := q.rw(c, WithWatchdog(3*time.Second))
	h, err := l.RAcquire(me)
	require.NoError(t, err)
	require.NoError(t, l.Lock(me))
	r := q.next(q.read(t.Context(), q.clients[1]), 1)
	w := q.waitNext(t.Context(), 1, q.clients[1])
	q.awaitHeard(q.clients[1])
	awaitRenewal(t, h, 5*time.Second)
	require.NoError(t, l.Unlock(me))
	q.unlock(r.granted())
	require.NoError(t, h.Unlock(me))
	q.unlock(w.granted())
	q.requireNothingLeft()
	denied, _ := s.Do(t, "ACL", "LOG").([]any)
	require.Empty(t, denied, "%s", log.String())
	require.Empty(t, log.String())
}
