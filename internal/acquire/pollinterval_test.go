package acquire_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// If no message can reach a waiter, it polls at its interval, and no faster.
func TestPollIsNeverFaster(t *testing.T) {
	t.Parallel()
	const poll = 40 * time.Millisecond
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all", "-subscribe")
	c := locktest.NewTestClient(t, s)
	require.NoError(t, relock.NewRedisLock("k", c).Lock(t.Context()))
	deaf, err := relock.NewClient(s.Network, s.Address, "pw", relock.WithUsername("deaf"), relock.WithKeyPrefix(locktest.Prefix(c)), relock.WithPollInterval(poll))
	require.NoError(t, err)
	defer func() { require.NoError(t, deaf.Close()) }()
	s.Do(t, "CONFIG", "RESETSTAT")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := time.Now()
	waits := testkit.Async(t, func() error { return relock.NewRedisLock("k", deaf, relock.WithBlock()).Lock(ctx) })
	polls := 0
	testkit.Eventually(t, 4*time.Second, func() bool {
		polls = locktest.Calls(t, s, "evalsha")
		return polls >= 25
	}, "polls")
	require.LessOrEqual(t, polls, 1+int(time.Since(start)/poll))
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, waits, testkit.Patience), context.Canceled)
}
