package relock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever comes over a client's channel, no live hold is freed, no waiter is lost, and nobody gets what is not theirs.
func TestForgedMessages(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		c, other := q.clients[0], q.clients[1]
		channel := c.config.prefix + c.engine.Identity.ID
		h := q.take(other)
		first := q.waitNext(context.Background(), 0, c)
		q.awaitHeard(c)
		h, _ = q.handOver(h, first)
		// The first one is granted; its name is known, as anybody may read it.
		granted := c.engine.Identity.ID + ":1:" + waitLetters(m) + ":1250"
		second := q.waitNext(context.Background(), 0, c)
		third := q.waitNext(context.Background(), 1, other)
		before := q.server.Content(t, q.key)
		live := c.engine.Identity.ID + ":2:" + waitLetters(m) + ":1250"
		for _, text := range []string{
			"", " ", "  ", "garbage", "a b", "a b c", strings.Repeat("x", 1<<20), "\r\n*1\r\n", "\x00 \xff",
			granted + " " + q.key, granted + " " + q.key, // just granted, and doubled
			c.engine.Identity.ID + ":1 " + q.key,   // its hold
			live + " " + q.key, live + " " + q.key, // still waits
			c.engine.Identity.ID + ":2 " + q.key,
			granted + " " + c.config.prefix + "{other}", live + " " + c.config.prefix + "{other}",
			granted + " " + q.key + ":q", granted + " elsewhere:{x}",
			c.engine.Identity.ID + ":999:" + waitLetters(m) + ":1250 " + q.key, // never drawn
			c.engine.Identity.ID + ":999:xx:1 " + q.key, c.engine.Identity.ID + ":::: " + q.key, c.engine.Identity.ID + ": " + q.key,
			fmt.Sprintf("%s:1:%s:1250 %s", other.engine.Identity.ID, waitLetters(m), q.key), // another client's
			third.name() + " " + q.key,
		} {
			q.server.Do(t, "PUBLISH", channel, text)
		}
		time.Sleep(300 * time.Millisecond) // for what should not happen
		require.NoError(t, h.Err())
		require.False(t, second.isOver(), "granted while another one has it: %v", second.err)
		require.False(t, third.isOver())
		require.Equal(t, before, q.server.Content(t, q.key), "the hold was touched")
		require.Equal(t, 2, q.inQueue(), "%s", q.snapshot())
		require.True(t, feedIsUp(c))
		h, _ = q.handOver(h, second)
		h, _ = q.handOver(h, third)
		q.unlock(h)
		q.requireNothingLeft()
	})
}

// waitLetters are the kind and the mode in a wait's name.
func waitLetters(m queueMode) string {
	letters := map[string]string{"RedisLock": "p", "ReentrantLock": "r"}[m.kind]
	if m.fair {
		return letters + "f"
	}
	return letters + "u"
}

// name is the newest wait in the queue.
func (w *waiting) name() string {
	w.bench.Helper()
	all := w.bench.snapshotQueue()
	require.NotEmpty(w.bench, all)
	return all[len(all)-1]
}
