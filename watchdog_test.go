package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestWatchdogOutlivesItsLease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			const lease = 2400 * time.Millisecond
			h, err := newLock("k", c, WithWatchdog(lease)).Acquire(t.Context())
			require.NoError(t, err)
			staysHeld(t, s, c, h, 3*lease)
			require.NoError(t, h.Unlock(t.Context()))
			requireFree(t, s, c, "k")
		})
	}
}

func TestFixedLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			h, err := newLock("k", c, WithExpiry(2400*time.Millisecond)).Acquire(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 4800*time.Millisecond), ErrLockLost)
			testkit.Eventually(t, time.Second, func() bool { return pttl(t, s, c, "k") < 0 }, "the key is gone")
		})
	}
}

// The hold does not end with the context that it was acquired with.
func TestWatchdogOutlivesTheAcquiringContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	const lease = 2400 * time.Millisecond
	h, err := NewRedisLock("k", c, WithWatchdog(lease)).Acquire(ctx)
	require.NoError(t, err)
	staysHeld(t, s, c, h, 3*lease)
	require.NoError(t, h.Unlock(ctx))
}

// Data lost at the server is found at the next renewal, which revives nothing.
func TestWatchdogFindsALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, loss := range []struct {
		name string
		how  func(t *testing.T, s *redistest.Server, key string)
	}{
		{"DEL by an operator", func(t *testing.T, s *redistest.Server, key string) { s.Do(t, "DEL", key) }},
		{"taken by another kind", func(t *testing.T, s *redistest.Server, key string) {
			s.Do(t, "DEL", key)
			s.Do(t, "LPUSH", key, "x")
		}},
		{"restart without data", func(t *testing.T, s *redistest.Server, _ string) { s.Kill(t); s.Boot(t) }},
	} {
		for name, newLock := range kinds {
			t.Run(loss.name+"/"+name, func(t *testing.T) {
				var log logBuffer
				c := newTestClient(t, s, log.option())
				h, err := newLock("k", c, WithWatchdog(4800*time.Millisecond)).Acquire(t.Context())
				require.NoError(t, err)
				loss.how(t, s, keyOf(c, "k"))
				start := time.Now()
				require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 6*time.Second), ErrLockLost)
				require.Less(t, time.Since(start), 3*time.Second, "at the next renewal, after 1.6 s, not at the one after it")
				require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
				require.NotEqual(t, "hash", s.Do(t, "TYPE", keyOf(c, "k")), "not revived")
				require.NotEqual(t, "string", s.Do(t, "TYPE", keyOf(c, "k")), "not revived")
				// The context ends first, on the watchdog's goroutine, which then logs.
				testkit.Eventually(t, time.Second, func() bool { return strings.Contains(log.String(), "lock lost") }, "it is logged")
			})
		}
	}
}

// A server that refuses a renewal and then falls silent leaves no hold valid while the reason is asked for.
func TestWatchdogDoesNotWaitForTheReason(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := faults.Start(t, s.Network, s.Address)
			c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
			h, err := newLock("k", c, WithWatchdog(time.Minute)).Acquire(t.Context())
			require.NoError(t, err)
			asked := proxy.On(faults.Script(script.Notice.SHA), faults.Every, faults.DropRequest)
			s.Do(t, "DEL", keyOf(c, "k"))
			l := h.(hold).level.Lease()
			l.RenewNow()
			select {
			case <-asked:
			case <-time.After(testkit.Patience):
				require.FailNow(t, "the renewal is not refused")
			}
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 2*time.Second), ErrLockLost)
			require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
		})
	}
}

// An outage shorter than the belief is survived: renewal is tried again until belief ends.
func TestWatchdogSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	h, err := NewRedisLock("k", c, WithWatchdog(4500*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	for range 2 {
		s.Pause(t)
		<-time.After(2400 * time.Millisecond) // the outage
		s.Resume(t)
		before := h.ValidUntil()
		testkit.Eventually(t, 3*time.Second, func() bool { return h.ValidUntil().After(before) }, "renewed after the outage")
	}
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(t.Context()))
}

// When no renewal gets through, the hold is lost when the belief ends, and stays lost though the server comes back.
func TestWatchdogGivesUpWhenBeliefEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	h, err := NewRedisLock("k", c, WithWatchdog(time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	until := h.ValidUntil()
	s.Pause(t)
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 3*time.Second), ErrLockLost)
	require.Less(t, time.Since(until), 500*time.Millisecond)
	s.Resume(t)
	other := NewRedisLock("k", sibling(t, s, c), WithBlock())
	require.NoError(t, other.Lock(t.Context()))
	require.ErrorIs(t, h.Err(), ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
	require.NoError(t, other.Unlock(t.Context()))
}

// A renewal that is on its way when Unlock is called brings nothing back.
func TestRenewalAfterRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			h, err := newLock("k", c).Acquire(t.Context())
			require.NoError(t, err)
			renew := leaseOf(h).Protocol().Renew(30 * time.Second)
			require.NoError(t, h.Unlock(t.Context()))
			o, _ := c.engine.Eval(t.Context(), driver.Limits{}, renew)
			require.NoError(t, o.Err)
			require.Equal(t, int64(script.Other), o.Reply)
			requireFree(t, s, c, "k")
		})
	}
}

// A quick Lock and Unlock in a loop leaves nothing in the watchdog.
func TestWatchdogForgets(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			l := newLock("k", c, WithWatchdog(9*time.Second), WithMaxHold(time.Hour))
			for range 200 {
				require.NoError(t, l.Lock(t.Context()))
				require.NoError(t, l.Unlock(t.Context()))
			}
			require.Empty(t, c.engine.Watchdog().Pending())
			require.Zero(t, c.engine.State().Leases)
			require.Zero(t, c.engine.State().Owners)
			shortest, _ := c.engine.Watchdog().Bounds()
			require.Zero(t, shortest, "no job is counted")
		})
	}
}

// All holds of a client are renewed over one connection.
func TestManyHoldsOneConnection(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second // of which a third is for 500 renewals, however busy the machine is
	s := redistest.Start(t)
	c := newTestClient(t, s)
	var holds []Hold
	for i := range 500 {
		h, err := NewRedisLock(string(rune('a'+i%26))+time.Duration(i).String(), c, WithWatchdog(lease)).Acquire(t.Context())
		require.NoError(t, err)
		holds = append(holds, h)
	}
	<-time.After(lease + lease/3)
	for _, h := range holds {
		require.NoError(t, h.Err())
	}
	require.LessOrEqual(t, scripttest.InfoField(t, s, "clients", "connected_clients"), int64(1+1+1), "pool, watchdog, and this one")
	for _, h := range holds {
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// Renewals come every third of the lease, counted from the sending, and not more often.
func TestRenewalRate(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	h, err := NewRedisLock("k", c, WithWatchdog(2400*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	s.Do(t, "CONFIG", "RESETSTAT")
	<-time.After(8 * time.Second)
	renewals := calls(t, s, "evalsha")
	require.GreaterOrEqual(t, renewals, 8, "about 10 in ten thirds of a lease")
	require.LessOrEqual(t, renewals, 13)
	require.NoError(t, h.Unlock(t.Context()))
}
