package lease_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// newRed returns a bench of n servers for a parallel test.
func newRed(t *testing.T, n int) *locktest.RedBench {
	t.Helper()
	t.Parallel()
	return locktest.NewRedBench(t, locktest.NewRedServers(t, n))
}

// awaitMembers waits until so many nodes have granted the hold.
func awaitMembers(t testing.TB, h relock.Hold, n int) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool { return len(locktest.Level(h).Members()) == n },
		"all nodes grant it")
}

// A member that goes on may find the end of the hold before the members that
// were ended by force have reported it.
func TestRedLockEndedByForceIsFoundByAnotherMember(t *testing.T) {
	b := newRed(t, 3)
	h := locktest.Take(t, b.Patient().Acquire)
	awaitMembers(t, h, 3)
	var follows []func()
	for _, one := range locktest.Level(h).Members()[:2] {
		follows = append(follows, one.Lease().MarkLost(errs.Forced("maintenance")))
	}
	require.NoError(t, locktest.Level(h).Members()[2].Lease().ExtendValidity(time.Now(), locktest.FaultLease))
	require.ErrorContains(t, h.Err(), "maintenance")
	require.ErrorIs(t, h.Err(), relock.ErrForced)
	for _, follow := range follows {
		follow()
	}
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrForced)
	b.RequireFree(time.Second)
}

// The loss is that of the member that ended last, even if only the clock shows
// its end. An earlier loss, which the hold has survived, is not the reason.
func TestRedLockLossIsThatOfTheLastMember(t *testing.T) {
	b := newRed(t, 3)
	h := locktest.Take(t, b.Patient().Acquire)
	awaitMembers(t, h, 3)
	members := locktest.Level(h).Members()
	members[0].Lease().MarkLost(errs.Vanished)()
	require.NoError(t, h.Err(), "two of three are left")
	members[1].Lease().Set(func(s *lease.State) { s.ValidUntil = time.Now().Add(-time.Millisecond) })
	require.ErrorContains(t, h.Err(), "not renewed since")
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	b.RequireFree(time.Second)
}

// The hold ends before the key of a lost member is released. Otherwise others
// could have the lock while the hold is valid.
func TestGroupEndsBeforeItsMemberIsReleased(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	h := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c).Acquire)
	first := locktest.Level(h).Members()[0].Lease()
	thaw := sync.OnceFunc(locktest.Level(h).FreezeGroup())
	defer thaw() // if the test fails
	lost := testkit.Async(t, func() error {
		first.Lose(errs.Forced("maintenance"))
		return nil
	})
	freed := func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "a")) == int64(0) }
	for watch := time.Now(); time.Since(watch) < 100*time.Millisecond; {
		require.False(t, freed(), "released while the hold is valid")
	}
	thaw()
	require.NoError(t, testkit.ResultWithin(t, lost, testkit.Patience))
	require.ErrorIs(t, h.Err(), relock.ErrForced)
	testkit.Eventually(t, testkit.Patience, freed, "released")
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrForced)
}

// The loss of a hold is logged once the keys of its members are being released:
// a log handler may take long.
func TestLogOfALostGroupDelaysNoRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	log := newStuckLog(t)
	c := locktest.NewTestClient(t, s, log.option())
	h := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c).Acquire)
	first := locktest.Level(h).Members()[0].Lease()
	lost := testkit.Async(t, func() error {
		first.Lose(errs.Forced("maintenance"))
		return nil
	})
	log.await(t)
	testkit.Eventually(t, testkit.Patience,
		func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "a")) == int64(0) }, "released")
	log.free()
	require.NoError(t, testkit.ResultWithin(t, lost, testkit.Patience))
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrForced)
}

// The hold is valid until so many nodes' leases end that no quorum is left.
func TestRedLockValidity(t *testing.T) {
	b := newRed(t, 5)
	const expiry = locktest.RedLease
	start := time.Now()
	h := locktest.Take(t,
		relock.NewRedLock("k", b.Clients, relock.WithMaxLease(locktest.RedLease), relock.WithExpiry(expiry)).Acquire)
	end := time.Now()
	length := expiry - lockspec.Drift(expiry)
	require.WithinRange(t, h.ValidUntil(), start.Add(length), end.Add(length))
	awaitMembers(t, h, 5)
	var latest time.Time
	for _, one := range locktest.Level(h).Members() {
		latest = testkit.Later(latest, one.ValidUntil())
	}
	for i, one := range locktest.Level(h).Members() {
		require.Equal(t, i >= 3, h.ValidUntil().After(latest), "with %d of 5 extended", i)
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, one.Extend(t.Context(), expiry))
	}
	require.ErrorIs(t, h.Extend(t.Context(), 2*locktest.RedLease), relock.ErrInvalid, "above the largest lease")
	until := h.ValidUntil()
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
	require.False(t, time.Now().Before(until))
}

// A hold that is no longer valid is not revived, though the timer of the member
// that ended it is late: others may have had the lock.
func TestRedLockLateGrantAfterTheEnd(t *testing.T) {
	b := newRed(t, 3)
	l := b.Patient()
	b.Connect(l)
	h := b.WithoutTheThird(l)
	first := locktest.Level(h).Members()[0].Lease()
	first.Set(func(s *lease.State) { s.ValidUntil = time.Now().Add(time.Second) }) // its timer comes much later
	require.NoError(t, h.Err())
	time.Sleep(time.Until(h.ValidUntil()) + time.Millisecond)
	b.Proxies[2].Resume()
	awaitMembers(t, h, 3)
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.Error(t, h.Context().Err())
	b.RequireFree(testkit.Patience)
}

// An Unlock of all keys does not wait for one that was unlocked before.
func TestMultiLockUnlocksWithoutAMember(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	l := relock.NewMultiLock([]string{"a", "b", "c"}, c)
	h := locktest.Take(t, l.Acquire)
	require.NoError(t, locktest.Level(h).Members()[1].Unlock())
	unlocked := testkit.Async(t, func() error { return h.Unlock(t.Context()) })
	require.Error(t, testkit.ResultWithin(t, unlocked, lockspec.DefaultLease/3))
	locktest.RequireNoQueues(t, s, c, "a", "b", "c")
}

// A MultiLock is valid until the first of its keys expires.
func TestMultiLockWithOneKeyExtended(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	h := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c, relock.WithExpiry(10*time.Second)).Acquire)
	until := h.ValidUntil()
	require.NoError(t, locktest.Level(h).Members()[0].Extend(t.Context(), time.Minute))
	require.Equal(t, until, h.ValidUntil(), "the other key is not extended")
	require.NoError(t, h.Unlock(t.Context()))
}
