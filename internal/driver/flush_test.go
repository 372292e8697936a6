package driver_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A server that forgets its scripts as fast as it can costs no error in thousands of calls, nor a hold that is being renewed.
func TestScriptFlushInATightLoop(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 4, 100
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	held, err := relock.NewRedisLock("held", c, relock.WithWatchdog(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	over := make(chan struct{})
	flushes := 0
	flushed := testkit.Async(t, func() error {
		conn := s.Dial(t)
		defer conn.Close() //nolint:errcheck // nothing is pending
		for {
			select {
			case <-over:
				return nil
			default:
			}
			if _, err := conn.Do("SCRIPT", "FLUSH"); err != nil {
				return err
			}
			flushes++
		}
	})
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() { useWhileFlushed(t, c, rounds) })
	}
	group.Wait()
	for range 3 {
		locktest.AwaitRenewal(t, held, locktest.CellPatience)
	}
	close(over)
	require.NoError(t, testkit.ResultWithin(t, flushed, locktest.CellPatience))
	t.Logf("%d flushes", flushes)
	require.Greater(t, flushes, rounds)
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock(t.Context()))
}

// useWhileFlushed takes and gives back a plain lock, and three levels of a reentrant one.
func useWhileFlushed(t *testing.T, c *relock.Client, rounds int) {
	key := locktest.Engine(c).Identity.Goroutine()
	plain, reentrant := relock.NewRedisLock("plain "+key, c), relock.NewReentrantLock("reentrant "+key, c)
	taken := relock.NewRedisLock("held", c)
	for range rounds {
		calls := []error{plain.Lock(t.Context())}
		for range 3 {
			calls = append(calls, reentrant.Lock(t.Context()))
		}
		for range 3 {
			calls = append(calls, reentrant.Unlock(t.Context()))
		}
		for _, err := range append(calls, plain.Unlock(t.Context())) {
			if err != nil {
				t.Errorf("visible: %v", err)
			}
		}
		if err := taken.TryLock(t.Context()); !errors.Is(err, relock.ErrLockAcquiredByOthers) {
			t.Errorf("of a lock that is held: %v", err)
		}
	}
}
