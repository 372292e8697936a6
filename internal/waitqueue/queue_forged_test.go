package waitqueue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/locktest"
)

// Whatever comes over a client's channel, no live hold is freed, no waiter is lost, and nobody gets what is not theirs.
func TestForgedMessages(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		c, other := q.Clients[0], q.Clients[1]
		channel := locktest.Prefix(c) + locktest.Engine(c).Identity.ID
		h := q.Take(other)
		first := q.WaitNext(context.Background(), 0, c)
		q.AwaitHeard(c)
		h, _ = q.HandOver(h, first)
		// The first one is granted; its name is known, as anybody may read it.
		granted := locktest.Engine(c).Identity.ID + ":1:" + waitLetters(m) + ":1250"
		second := q.WaitNext(context.Background(), 0, c)
		third := q.WaitNext(context.Background(), 1, other)
		before := q.Server.Content(t, q.Key)
		live := locktest.Engine(c).Identity.ID + ":2:" + waitLetters(m) + ":1250"
		for _, text := range []string{
			"", " ", "  ", "garbage", "a b", "a b c", strings.Repeat("x", 1<<20), "\r\n*1\r\n", "\x00 \xff",
			granted + " " + q.Key, granted + " " + q.Key, // just granted, and doubled
			locktest.Engine(c).Identity.ID + ":1 " + q.Key, // its hold
			live + " " + q.Key, live + " " + q.Key, // still waits
			locktest.Engine(c).Identity.ID + ":2 " + q.Key,
			granted + " " + locktest.Prefix(c) + "{other}", live + " " + locktest.Prefix(c) + "{other}",
			granted + " " + q.Key + ":q", granted + " elsewhere:{x}",
			locktest.Engine(c).Identity.ID + ":999:" + waitLetters(m) + ":1250 " + q.Key, // never drawn
			locktest.Engine(c).Identity.ID + ":999:xx:1 " + q.Key, locktest.Engine(c).Identity.ID + ":::: " + q.Key, locktest.Engine(c).Identity.ID + ": " + q.Key,
			fmt.Sprintf("%s:1:%s:1250 %s", locktest.Engine(other).Identity.ID, waitLetters(m), q.Key), // another client's
			third.Name() + " " + q.Key,
		} {
			q.Server.Do(t, "PUBLISH", channel, text)
		}
		time.Sleep(300 * time.Millisecond) // for what should not happen
		require.NoError(t, h.Err())
		require.False(t, second.IsOver(), "granted while another one has it: %v", second.Err)
		require.False(t, third.IsOver())
		require.Equal(t, before, q.Server.Content(t, q.Key), "the hold was touched")
		require.Equal(t, 2, q.InQueue(), "%s", q.Snapshot())
		require.True(t, feedIsUp(c))
		h, _ = q.HandOver(h, second)
		h, _ = q.HandOver(h, third)
		q.Unlock(h)
		q.RequireNothingLeft()
	})
}

// waitLetters are the kind and the mode in a wait's name.
func waitLetters(m locktest.QueueMode) string {
	letters := map[string]string{"RedisLock": "p", "ReentrantLock": "r"}[m.Kind]
	if m.Fair {
		return letters + "f"
	}
	return letters + "u"
}
