package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/runs"
	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// 99 callers of three processes load once.
func TestCache(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, runs.Prints("99 callers, 1 load\n"))
}

// newCache returns the cache of one process.
func newCache(t *testing.T, s *redistest.Server, load func(context.Context) (string, error)) *cache {
	t.Helper()
	client, err := relock.NewClient(s.Network, s.Address, "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return &cache{client: client, load: load}
}

// While one process loads, the others serve the stale value. Then all have the
// new one, which was loaded once.
func TestStaleValueMeanwhile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var loads atomic.Int32
	loading, goOn := make(chan struct{}), make(chan struct{})
	slow := newCache(t, server, func(context.Context) (string, error) {
		loads.Add(1)
		close(loading)
		<-goOn
		return "new", nil
	})
	other := newCache(t, server, func(context.Context) (string, error) {
		loads.Add(1)
		return "", errors.New("it is loaded twice")
	})
	require.NoError(t, slow.store(t.Context(), "report/7", "old"))
	server.Do(t, "DEL", keys("report/7")[1])

	var callers sync.WaitGroup
	callers.Go(func() { requireValue(t, slow, "new") })
	<-loading
	var stale sync.WaitGroup
	for range 20 {
		stale.Go(func() { requireValue(t, other, "old") })
	}
	stale.Wait()
	close(goOn)
	callers.Wait()
	requireValue(t, other, "new")
	require.Equal(t, int32(1), loads.Load())
}

// A load that fails is not stored, and the next caller loads.
func TestFailureIsNotStored(t *testing.T) {
	t.Parallel()
	loads := 0
	c := newCache(t, redistest.Start(t), func(context.Context) (string, error) {
		if loads++; loads == 1 {
			return "", errors.New("the database is away")
		}
		return "new", nil
	})
	_, err := c.get(t.Context(), "report/7")
	require.ErrorContains(t, err, "the database is away")
	requireValue(t, c, "new")
	requireValue(t, c, "new")
	require.Equal(t, 2, loads)
}

func requireValue(t *testing.T, c *cache, want string) {
	value, err := c.get(t.Context(), "report/7")
	if err != nil || value != want {
		t.Errorf("value is %q, error is %v", value, err)
	}
}
