package relock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// All three ends have a kind, a context with the caller's values, and a start
// and an end.
func TestObserverHooksAreEven(t *testing.T) {
	t.Parallel()
	type mark struct{}
	var mu sync.Mutex
	seen := map[string]int{}
	note := func(ctx context.Context, what, kind string, start, end time.Time, err error) {
		mu.Lock()
		defer mu.Unlock()
		seen[fmt.Sprintf("%s %s %v %v", what, kind, ctx.Value(mark{}), err == nil)]++
		if start.IsZero() || end.Before(start) || time.Since(start) > time.Minute || time.Since(end) > time.Minute {
			t.Errorf("%s from %v to %v", what, start, end)
		}
		if what != "lock" && ctx.Err() != nil {
			t.Errorf("%s: %v", what, ctx.Err())
		}
	}
	count := func(key string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[key]
	}
	s := &explained{redistest.Start(t), "x:"}
	c := s.client(t, relock.WithCommandTimeout(2*time.Second), relock.WithObserver(relock.Observer{
		LockDone:  func(ctx context.Context, e relock.LockDone) { note(ctx, "lock", e.Kind, e.Start, e.End, e.Err) },
		HoldDone:  func(ctx context.Context, e relock.HoldDone) { note(ctx, "hold", e.Kind, e.Start, e.End, e.Err) },
		RenewDone: func(ctx context.Context, e relock.RenewDone) { note(ctx, "renewal", e.Kind, e.Start, e.End, e.Err) },
	}))
	ctx := context.WithValue(t.Context(), mark{}, "mine")
	for kind, acquire := range map[string]func(context.Context) (relock.Hold, error){
		"plain":     relock.NewRedisLock("plain", c, relock.WithWatchdog(3*time.Second)).Acquire,
		"reentrant": relock.NewReentrantLock("reentrant", c, relock.WithWatchdog(3*time.Second)).Acquire,
		"read":      relock.NewRWLock("read", c, relock.WithWatchdog(3*time.Second)).RAcquire,
		"write":     relock.NewRWLock("write", c, relock.WithWatchdog(3*time.Second)).Acquire,
		"multi":     relock.NewMultiLock([]string{"multi"}, c, relock.WithWatchdog(3*time.Second)).Acquire,
	} {
		h, err := acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Extend(context.WithValue(t.Context(), mark{}, "extend"), 3*time.Second))
		require.Equal(t, 1, count("renewal "+kind+" extend true"))
		testkit.Eventually(t, testkit.Patience, func() bool { return count("renewal "+kind+" mine true") > 0 }, "renewed")
		require.NoError(t, h.Unlock(t.Context()))
		require.Equal(t, 1, count("lock "+kind+" mine true"))
		require.Equal(t, 1, count("hold "+kind+" mine true"))
	}
	h, err := relock.NewRedisLock("down", c, relock.WithWatchdog(3*time.Second)).Acquire(ctx)
	require.NoError(t, err)
	s.Kill(t)
	testkit.Eventually(t, testkit.Patience, func() bool { return count("renewal plain mine false") > 0 }, "not sent")
	require.Error(t, h.Unlock(t.Context()))
}
