package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// twoQueues is a queue at each of two servers, of one client, and the same of
// another client.
type twoQueues struct {
	topology      *locktest.Topology
	names         []string
	worker, other map[string]*queue.Queue // by name
}

func newTwoQueues(t *testing.T, opts ...queue.Option) *twoQueues {
	t.Helper()
	p := locktest.NewTopology(false, redistest.Start(t), redistest.Start(t))
	two := &twoQueues{topology: p, names: p.Names(t)}
	of := func(c *relock.Client) map[string]*queue.Queue {
		all := map[string]*queue.Queue{}
		for _, name := range two.names {
			q, err := queue.New(name, c, opts...)
			require.NoError(t, err)
			all[name] = q
		}
		return all
	}
	two.worker, two.other = of(p.Client(t)), of(p.Client(t))
	return two
}

// Workers of one client wait at both servers, and both notify them.
func TestWorkersOfTwoServers(t *testing.T) {
	t.Parallel()
	two := newTwoQueues(t)
	got := make(chan string, 100)
	var stops []func() error
	for _, name := range two.names {
		stops = append(stops, processing(t, two.worker[name], func(_ context.Context, d *queue.Delivery) error {
			got <- name + d.ID
			return nil
		}, queue.WithWorkers(2)))
		eventually(t, two.other[name], "it waits", func(s queue.Stats) bool { return s.Idle > 0 })
	}
	for _, name := range two.names {
		testkit.Eventually(t, testkit.Patience, func() bool {
			channels, _ := two.topology.Of(name).Do(t, "PUBSUB", "CHANNELS").([]any)
			return len(channels) == 1
		}, "it is subscribed at the server of its queue")
	}
	for i := range 10 {
		for _, name := range two.names {
			enqueue(t, two.other[name], "", fmt.Sprint(i))
			received := testkit.Next(t, got)
			require.Equal(t, name+fmt.Sprint(i), received)
		}
	}
	for i, stop := range stops {
		require.NoError(t, stop())
		eventually(t, two.other[two.names[i]], "all are done", isEmpty)
	}
}

// A server that hangs costs the deliveries of the other one nothing. Its own
// are lost, and come again.
func TestServerOfAQueueHangs(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	two := newTwoQueues(t, queue.WithLease(lease))
	hung, well := two.names[0], two.names[1]
	deliveries := map[string]*queue.Delivery{}
	for _, name := range two.names {
		enqueue(t, two.other[name], "", "a")
		deliveries[name] = receive(t, two.worker[name], "a")
	}
	two.topology.Of(hung).Pause(t)
	for end, i := time.Now().Add(3*lease/2), 0; time.Now().Before(end); i++ {
		require.NoError(t, deliveries[well].Err())
		enqueue(t, two.other[well], "", fmt.Sprint(i))
		require.NoError(t, receive(t, two.worker[well], fmt.Sprint(i)).Ack(t.Context()))
		time.Sleep(lease / 100)
	}
	require.ErrorIs(t, deliveries[hung].Err(), relock.ErrLockLost)
	require.NoError(t, deliveries[well].Ack(t.Context()))
	two.topology.Of(hung).Resume(t)
	again := receive(t, two.other[hung], "a")
	require.Equal(t, 1, again.Attempt)
	require.NoError(t, again.Ack(t.Context()))
}
