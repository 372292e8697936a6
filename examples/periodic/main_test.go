package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/runs"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Ten ticks of three replicas are ten reports.
func TestPeriodic(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, func(t *testing.T, out string) {
		require.Equal(t, 10, strings.Count(out, "report\n"), out)
		require.Equal(t, 3, strings.Count(out, "a replica ends: <nil>\n"), out)
	})
}

// A replica that dies costs no tick, and one that is late adds none.
func TestReplicaDies(t *testing.T) {
	t.Parallel()
	const ticks = 10
	server := redistest.Start(t)
	var replicas sync.WaitGroup
	defer replicas.Wait()
	all, stop := context.WithCancel(t.Context())
	defer stop()
	one, die := context.WithCancel(all)
	defer die()
	var mu sync.Mutex // guards ran
	replica := func(ctx context.Context, first time.Time) *queue.Queue {
		client, err := relock.NewClient(server.Network, server.Address, "")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		reports, err := queue.New("reports", client, queue.WithUnique(time.Hour))
		require.NoError(t, err)
		replicas.Go(func() { schedule(ctx, reports, first) })
		return reports
	}
	first, ran := time.Now().Truncate(period), map[string]int{}
	replica(one, first)
	replica(all, first)
	worker := replica(all, first)
	require.NoError(t, worker.Process(all, func(_ context.Context, d *queue.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		ran[d.ID]++
		switch len(ran) {
		case 3:
			die()
		case ticks / 2:
			replica(all, first) // late by five ticks
		case ticks:
			stop()
		}
		return nil
	}))
	for n := range ticks {
		require.Equal(t, 1, ran[task(first.Add(time.Duration(n)*period)).ID], "tick %d", n)
	}
	require.Len(t, ran, ticks)
}
