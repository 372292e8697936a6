package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A late copy of an acquire takes the key for the lease that it asks for, so the clean-up after it does not last as long as an Extend.
func TestExtendDoesNotProlongTheCleanUp(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	s := locktest.NewFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	for range 2 {
		proxy.On(faults.Any, 1, faults.CutBefore)
		h, err := relock.NewRedisLock("lock", c, relock.WithWatchdog(lease)).Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Extend(t.Context(), 24*time.Hour))
		require.NoError(t, h.Unlock(t.Context()))
	}
	testkit.Eventually(t, 3*lease+10*time.Second, func() bool { return len(locktest.Engine(c).Retrier.Pending()) == 0 && quietFor(proxy, 2*time.Second) }, "releases go on")
}

// quietFor says that no request comes for so long.
func quietFor(p *faults.Proxy, d time.Duration) bool {
	return !p.Await(faults.Any, p.Count(faults.Any)+1, d)
}

// A release that was refused for want of permission is sent again, as ErrUnconfirmed promises.
func TestDeniedReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "user", "reset", "on", ">secret", "~*", "+@all")
	c, err := relock.NewClient(s.Network, s.Address, "secret", relock.WithUsername("user"))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	h, err := relock.NewRedisLock("lock", c).Acquire(t.Context())
	require.NoError(t, err)
	s.Do(t, "ACL", "SETUSER", "user", "-evalsha", "-eval")
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.ErrorIs(t, err, relock.ErrDenied)
	locktest.RequireHeld(t, s, c, "lock")
	s.Do(t, "ACL", "SETUSER", "user", "+@all")
	testkit.Eventually(t, 5*time.Second, func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "lock")) == int64(0) }, "not released")
}
