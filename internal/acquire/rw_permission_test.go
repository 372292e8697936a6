package acquire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// With what the documentation names a read/write lock does all that it can, and nothing is denied on the way.
func TestRWLockLeastPrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rules := "on >secret resetkeys ~test:* resetchannels &test:* -@all +set +get +del +type +pttl +pexpire +hmget +hset +hdel +eval +evalsha +ping " +
		"+time +exists +hget +hrandfield +zadd +zcard +zrem +zrange +zscore +zmscore +zremrangebyrank +publish +subscribe " + locktest.RwCommands
	args := []any{"SETUSER", "app"}
	for _, rule := range strings.Fields(rules) {
		args = append(args, rule)
	}
	s.Do(t, "ACL", args...)
	s.Do(t, "ACL", "LOG", "RESET")
	var log locktest.LogBuffer
	dial := func(prefix string) *relock.Client {
		c, err := relock.NewClient(s.Network, s.Address, "secret", relock.WithUsername("app"), relock.WithKeyPrefix(prefix), log.Option())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	c := dial("test:rw:")
	q := &rwLine{&locktest.QueueBench{TB: t, QueueMode: locktest.QueueMode{Kind: "RWLock", Fair: true}, Server: s, Clients: []*relock.Client{c, dial("test:rw:")}, Key: locktest.KeyOf(c, locktest.QueueKey)}}
	me := locktest.As(t, "me")
	l := q.rw(c, relock.WithWatchdog(3*time.Second))
	h, err := l.RAcquire(me)
	require.NoError(t, err)
	require.NoError(t, l.Lock(me))
	r := q.next(q.read(t.Context(), q.Clients[1]), 1)
	w := q.WaitNext(t.Context(), 1, q.Clients[1])
	q.AwaitHeard(q.Clients[1])
	locktest.AwaitRenewal(t, h, 5*time.Second)
	require.NoError(t, l.Unlock(me))
	q.Unlock(r.Granted())
	require.NoError(t, h.Unlock(me))
	q.Unlock(w.Granted())
	q.RequireNothingLeft()
	denied, _ := s.Do(t, "ACL", "LOG").([]any)
	require.Empty(t, denied, "%s", log.String())
	require.Empty(t, log.String())
}
