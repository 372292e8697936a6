package relock

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
	"github.com/relock-go/relock/internal/testkit"
)

const (
	maxSleep   = suspend.Most
	vigilPause = suspend.Pause
)

// sleepy is a client whose machine sleeps when the test says so.
func sleepy(t testing.TB, s *redistest.Server, opts ...ClientOption) (c *Client, sleep func(time.Duration)) {
	c = newTestClient(t, s, opts...)
	var total atomic.Int64
	c.engine.SetClocks(func() time.Duration { return time.Duration(total.Load()) }, func(time.Time) (wall, awake time.Duration) { return time.Duration(total.Load()), 0 })
	return c, func(d time.Duration) { total.Add(int64(d)) }
}

// A machine that has slept has lost its holds, though its clock says that the leases are young; they are given back.
func TestSuspendedMachineHasLostItsHolds(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, sleep := sleepy(t, s)
			asked, err := newLock("asked", c).Acquire(t.Context())
			require.NoError(t, err)
			other, err := newLock("other", c, WithExpiry(time.Hour)).Acquire(t.Context())
			require.NoError(t, err)
			sleep(maxSleep)
			require.NoError(t, asked.Err())
			time.Sleep(2 * vigilPause)
			require.NoError(t, other.Context().Err(), "is no sleep")

			sleep(maxSleep + time.Millisecond)
			require.ErrorIs(t, asked.Err(), ErrLockLost)
			require.ErrorIs(t, testkit.EndedWithin(t, other.Context(), 5*time.Second), ErrLockLost)
			require.ErrorIs(t, asked.Unlock(t.Context()), ErrLockLost)
			require.ErrorIs(t, other.Unlock(t.Context()), ErrLockLost)
			testkit.Eventually(t, 5*time.Second, func() bool { return s.Do(t, "EXISTS", keyOf(c, "asked"), keyOf(c, "other")) == int64(0) }, "given back")

			again, err := newLock("asked", c).Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, again.Err())
			require.NoError(t, again.Unlock(t.Context()))
		})
	}
}

// Each client of a RedLock looks for itself; the hold's Err asks all of them, whichever looks first.
func TestSuspendedRedLockIsLostAtOnce(t *testing.T) {
	t.Parallel()
	var clients []*Client
	var sleeps []func(time.Duration)
	for _, s := range newRedServers(t, 5) {
		c, sleep := sleepy(t, s)
		c.engine.StopTicks() // only Err checks, or a tick could find the suspend first
		clients, sleeps = append(clients, c), append(sleeps, sleep)
	}
	h, err := NewRedLock("k", clients, WithMaxLease(redLease), WithWatchdog(redLease)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Err())
	testkit.Eventually(t, testkit.Patience, func() bool { return len(membersOf(h)) == 5 }, "all nodes grant it: a later grant checks too")
	for _, sleep := range sleeps {
		sleep(time.Minute)
	}
	require.ErrorIs(t, h.Err(), ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
}

// The hold of several keys is lost with them.
func TestSuspendedMultiLockIsLostAtOnce(t *testing.T) {
	t.Parallel()
	c, sleep := sleepy(t, redistest.Shared(t))
	h, err := NewMultiLock([]string{"a", "b"}, c).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Err())
	sleep(time.Minute)
	require.ErrorIs(t, h.Err(), ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
}

// Who asks while another one's call is still told of the suspend gets no other answer.
func TestSuspendIsLostForAllBeforeItIsLogged(t *testing.T) {
	t.Parallel()
	stuck := newStuckLog(t)
	c, sleep := sleepy(t, redistest.Shared(t), stuck.option())
	var holds []Hold
	for _, key := range []string{"a", "b", "c"} {
		h, err := NewRedisLock(key, c).Acquire(t.Context())
		require.NoError(t, err)
		holds = append(holds, h)
	}
	sleep(time.Minute)
	first := testkit.Async(t, holds[0].Err)
	defer stuck.free()
	stuck.await(t)
	for _, h := range holds[1:] {
		require.ErrorIs(t, h.Err(), ErrLockLost)
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), time.Second), ErrLockLost)
	}
	stuck.free()
	require.ErrorIs(t, testkit.ResultWithin(t, first, testkit.Patience), ErrLockLost)
}

// No call passes by the check while holds are marked lost: its hold may be the
// next one.
func TestNobodyPassesWhileHoldsAreMarked(t *testing.T) {
	t.Parallel()
	c, sleep := sleepy(t, redistest.Shared(t))
	var leases []*lease.Lease
	for _, key := range []string{"a", "b", "c"} {
		h, err := NewRedisLock(key, c).Acquire(t.Context())
		require.NoError(t, err)
		leases = append(leases, h.(hold).level.Lease())
	}
	var thaws []func()
	for _, l := range leases {
		thaws = append(thaws, l.Freeze()) // so that the marking takes until then
	}
	sleep(time.Minute)
	asked := testkit.Async(t, func() error {
		c.engine.AskClocks()
		return nil
	})
	passes := func() bool { return c.engine.IsFresh() }
	assert.Never(t, passes, 100*time.Millisecond, time.Millisecond)
	for _, thaw := range thaws {
		thaw()
	}
	require.NoError(t, testkit.ResultWithin(t, asked, testkit.Patience))
	require.True(t, passes())
	for _, l := range leases {
		require.ErrorIs(t, l.State().Err, ErrLockLost)
	}
}

// Nobody has to ask, though the wall clock was set back by as much as the
// machine has slept.
func TestSuspendWithTheWallClockSetBack(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	var total atomic.Int64
	still := func(time.Time) (wall, awake time.Duration) { return 0, 0 }
	c.engine.SetClocks(func() time.Duration { return time.Duration(total.Load()) }, still)
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	total.Add(int64(time.Hour))
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
}

// Nobody has to ask: a hold's context ends by itself.
func TestSuspendIsNoticedByItself(t *testing.T) {
	t.Parallel()
	c, sleep := sleepy(t, redistest.Shared(t))
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	sleep(time.Hour)
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
}

// A grant whose request was sent before the sleep is not believed.
func TestGrantOverASleep(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c, sleep := sleepy(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	require.NoError(t, c.Ping(t.Context()))
	proxy.On(faults.Command("SET"), 1, faults.Delay(300*time.Millisecond))
	result := testkit.Async(t, func() error { return NewRedisLock("k", c).Lock(t.Context()) })
	require.True(t, proxy.Await(faults.Command("SET"), 1, testkit.Patience))
	sleep(time.Minute)
	c.engine.CheckSuspended(time.Now())
	require.ErrorIs(t, testkit.ResultWithin(t, result, testkit.Patience), lease.ErrLate)
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "EXISTS", keyOf(c, "k")) == int64(0) }, "given back")
}

// A sleep that was over before the request was sent takes no grant away, though nobody has noticed it before.
func TestGrantAfterASleep(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, sleep := sleepy(t, servers[0])
			c.engine.StopTicks() // nobody looks but who asks
			for range 2 {
				sleep(time.Hour)
				h, err := newLock(name, c).TryAcquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, h.Err())
				require.NoError(t, h.Unlock(t.Context()))
			}
		})
	}
	t.Run("RWLock", func(t *testing.T) {
		t.Parallel()
		c, sleep := sleepy(t, servers[0])
		sleep(time.Hour)
		require.NoError(t, NewRWLock("rw", c).TryRLock(t.Context()))
	})
	t.Run("MultiLock", func(t *testing.T) {
		t.Parallel()
		c, sleep := sleepy(t, servers[0])
		sleep(time.Hour)
		require.NoError(t, NewMultiLock([]string{"a", "b"}, c).TryLock(t.Context()))
	})
	t.Run("RedLock", func(t *testing.T) {
		t.Parallel()
		var clients []*Client
		for _, s := range servers {
			c, sleep := sleepy(t, s)
			clients = append(clients, c)
			sleep(time.Hour)
		}
		require.NoError(t, NewRedLock("red", clients, WithMaxLease(redLease), WithWatchdog(redLease)).TryLock(t.Context()))
	})
}

// A level whose request was sent before the sleep is not believed either.
func TestLevelOverASleep(t *testing.T) {
	t.Parallel()
	s := newFaultServer(t)
	for script, newLock := range map[*script.Script]func(c *Client) anyLock{
		script.ReentrantEnter: func(c *Client) anyLock { return owned("me", NewReentrantLock("k", c)) },
		script.RWEnter:        func(c *Client) anyLock { return owned("me", NewRWLock("k", c)) },
	} {
		t.Run(fmt.Sprintf("%T", newLock(nil)), func(t *testing.T) {
			t.Parallel()
			proxy := faults.Start(t, s.Network, s.Address)
			c, sleep := sleepy(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
			c.engine.StopTicks() // nobody looks but who asks
			l := newLock(c)
			require.NoError(t, l.Lock(t.Context()))
			proxy.On(faults.Script(script.SHA), 1, faults.Delay(time.Second))
			result := testkit.Async(t, func() error { return l.Lock(t.Context()) })
			require.True(t, proxy.Await(faults.Script(script.SHA), 1, testkit.Patience))
			sleep(time.Hour)
			require.ErrorIs(t, testkit.ResultWithin(t, result, testkit.Patience), ErrLockLost)
		})
	}
}
