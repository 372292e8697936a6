package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// A worker of a client with sharded channels is notified over that of the
// queue. Five polls would take five seconds.
func TestShardedReceiver(t *testing.T) {
	s := redistest.Start(t)
	p := locktest.NewTopology(false, s).Sharded()
	q, producer := queueOf(t, p.Client(t)), queueOf(t, p.Client(t))
	got := make(chan struct{})
	stop := processing(t, q, func(context.Context, *queue.Delivery) error {
		got <- struct{}{}
		return nil
	})
	run := func(id string) {
		t.Helper()
		eventually(t, q, "it waits", func(s queue.Stats) bool { return s.Idle == 1 })
		enqueue(t, producer, "", id)
		testkit.Next(t, got)
	}
	run("first")
	channels, err := redis.Strings(s.Do(t, "PUBSUB", "SHARDCHANNELS"), nil)
	require.NoError(t, err)
	require.Len(t, channels, 1)
	require.Contains(t, channels[0], "queue:{"+t.Name()+"}:")
	s.Do(t, "CONFIG", "RESETSTAT")
	var took []time.Duration
	for i := range 5 {
		clock := testkit.NewStopwatch(t)
		run(fmt.Sprint(i))
		took = append(took, clock.Net())
	}
	require.Less(t, locktest.Median(took), 400*time.Millisecond)
	require.Positive(t, locktest.Calls(t, s, "spublish"))
	require.Zero(t, locktest.Calls(t, s, "publish"))
	require.Zero(t, locktest.Calls(t, s, "ssubscribe"))
	require.NoError(t, stop())
}
