package waitqueue_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// Where connecting takes longer than the poller and the subscription have for it, who waits asks by itself, over the pool.
func TestWaiterWhoseClientConnectsSlowly(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("SELECT"), faults.Every, faults.Delay(driver.MinConnect+200*time.Millisecond))
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, relock.WithDatabase(1))
	holder := locktest.Sibling(t, s, c, relock.WithDatabase(1))
	h, err := relock.NewRedisLock("k", holder).Acquire(t.Context())
	require.NoError(t, err)
	waits := testkit.Async(t, func() error { return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Inspect(t, holder, "k").Waiting == 1 }, "waits")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
}

// Where connecting takes longer than the retrier waits for an answer, it takes the time that it needs: what was not answered is given back.
func TestCleanerConnectsSlowly(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, relock.WithDatabase(1))
	lock := relock.NewRedisLock("k", c)
	require.NoError(t, lock.Lock(t.Context()))
	proxy.On(faults.Command("SELECT"), faults.Every, faults.Delay(driver.MinConnect+700*time.Millisecond))
	proxy.On(faults.Script(script.Release.SHA), 1, faults.CutBefore)
	start := time.Now()
	require.ErrorIs(t, lock.Unlock(t.Context()), relock.ErrUnconfirmed)
	other := relock.NewRedisLock("k", locktest.Sibling(t, s, c, relock.WithDatabase(1)), relock.WithBlock())
	require.NoError(t, other.Lock(t.Context()))
	require.Less(t, time.Since(start), lockspec.DefaultLease/2, "it waited for the end of the lease")
	require.NoError(t, other.Unlock(t.Context()))
}

// Where no message comes, and polls are answered later than they wait for, a waiter asks by itself: it has the whole command timeout.
func TestWaiterWhosePollsAreAnsweredLate(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("SUBSCRIBE"), faults.Every, faults.ErrorLine("NOPERM User app has no permissions to run the 'subscribe' command"))
	proxy.On(faults.Script(script.Poll.SHA), faults.Every, faults.Delay(background.RetryLimit+200*time.Millisecond))
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	holder := locktest.Sibling(t, s, c)
	h, err := relock.NewRedisLock("k", holder, relock.WithFair()).Acquire(t.Context())
	require.NoError(t, err)
	waits := testkit.Async(t, func() error {
		return relock.NewRedisLock("k", c, relock.WithFair(), relock.WithBlock()).Lock(t.Context())
	})
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Inspect(t, holder, "k").Waiting == 1 }, "waits")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
}

// A line is polled for as its calls ask, not as one did that has left.
func TestPollForgetsAHastyCall(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	h, err := relock.NewRedisLock("k", locktest.Sibling(t, s, c), relock.WithFair()).Acquire(t.Context())
	require.NoError(t, err)
	intervals := func() (all []time.Duration) {
		for _, l := range locktest.Engine(c).Queue.State().Lines {
			all = append(all, l.Interval)
		}
		return all
	}
	wait := func(interval time.Duration) (over <-chan error, leave func()) {
		ctx, leave := context.WithCancel(t.Context())
		over = testkit.Async(t, func() error {
			return relock.NewRedisLock("k", c, relock.WithFair(), relock.WithBlock(), relock.WithPollInterval(interval)).Lock(ctx)
		})
		testkit.Eventually(t, testkit.Patience, func() bool { return slices.Equal(intervals(), []time.Duration{interval}) }, "comes as often")
		return over, leave
	}
	patient, leave := wait(100 * time.Millisecond)
	defer leave()
	hasty, leaveHasty := wait(time.Millisecond)
	leaveHasty()
	require.ErrorIs(t, testkit.ResultWithin(t, hasty, testkit.Patience), context.Canceled)
	testkit.Eventually(t, testkit.Patience, func() bool { return slices.Equal(intervals(), []time.Duration{100 * time.Millisecond}) }, "comes as rarely as the one that is left asks")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, patient, testkit.Patience))
}
