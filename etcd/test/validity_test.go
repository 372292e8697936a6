package test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A client is cut off, and another one gets its lock. By then the first hold
// has always ended: its validity counts from before the last answered request.
// Answers are late in this test, so a validity that counts from them is visibly
// too long.
//
// The control is concurrency.Session, which counts from the answer and checks
// every half second: it overlaps.
func TestCutOffHolderIsNoLongerValid(t *testing.T) {
	t.Parallel()
	const wanted = 50 // holds that are cut off; a very slow machine loses some before
	c := newCluster(t, 1)
	var r cutOffs
	for r.holds < wanted && r.rounds < 10 {
		r.round(t, c)
	}
	t.Logf("%d of %d holds overlapped, %d of %d sessions did, in %d rounds",
		r.overlaps, r.holds, r.controls, r.sessions, r.rounds)
	assert.Zero(t, r.overlaps, "by %v", r.worst)
	assert.GreaterOrEqual(t, r.holds, wanted)
	assert.Positive(t, r.controls, "the control does not overlap: this test could not fail")
}

// cutOffs is what came of holders that were cut off from the server.
type cutOffs struct {
	mu                                          sync.Mutex
	rounds, holds, overlaps, sessions, controls int
	worst, latest                               time.Duration
}

// cutTTL is that of the holds. Before the cut a machine may stand still for a
// moment, though answers are late.
const cutTTL = 6 * time.Second

// round cuts off many holds and some sessions together.
func (r *cutOffs) round(t *testing.T, c *cluster) {
	const runs, sessions, late = 60, 16, 250 * time.Millisecond
	r.rounds++
	r.sessions += sessions
	p := newProxy(t, c.endpoints[0])
	p.delay(late)
	var group sync.WaitGroup
	ready, cut := make(chan struct{}, 2*(runs+sessions)), make(chan struct{})
	arrive := func() { ready <- struct{}{} } // also for a goroutine whose lock failed before the cut
	for n := range runs {
		group.Go(func() {
			defer arrive()
			mode := []string{"fair", "unfair"}[n%2]
			if one, ok := cutOff(t, c, p, modes[mode], ready, cut); ok {
				r.hold(one)
			}
		})
	}
	for range sessions {
		group.Go(func() {
			defer arrive()
			if over := cutOffSession(t, c, p, ready, cut); over > 0 {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.controls++
			}
		})
	}
	for range runs + sessions {
		<-ready
	}
	time.Sleep(cutTTL / 2) // the leases have been renewed
	s := testkit.NewStopwatch(t)
	p.silence()
	close(cut)
	group.Wait()
	s.Check(r.latest, 300*time.Millisecond, "a hold goes on after its validity")
	p.cut() // so that Close does not wait for answers
}

func (r *cutOffs) hold(one ended) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds++
	if one.over > 0 {
		r.overlaps++
	}
	r.worst, r.latest = max(r.worst, one.over), max(r.latest, one.late)
}

// drift is how much shorter the validity of cutTTL is.
const drift = cutTTL/100 + 2*time.Millisecond

// ended is how long a hold that was cut off stayed valid beside the next one,
// which is zero or negative, and how long after its validity it ended.
type ended struct{ over, late time.Duration }

// cutOff cuts off one hold, and reports whether it was there at the cut: a very
// slow machine loses some before, or their places in the queue.
func cutOff(
	t *testing.T, c *cluster, p *proxy, opts []etcdlock.Option, ready chan<- struct{}, cut <-chan struct{},
) (ended, bool) {
	key := t.Name() + time.Now().String()
	time.Sleep(rand.N(500 * time.Millisecond)) // etcd looks for leases that have ended each half second
	hold, err := newLocker(t, c.client(t, p.address), append(opts, etcdlock.WithTTL(cutTTL))...).Lock(limited(t), key)
	if errors.Is(err, etcdlock.ErrPlaceLost) || !assert.NoError(t, err) {
		return ended{}, false
	}
	other := newLocker(t, c.client(t), append(opts, etcdlock.WithTTL(time.Minute))...)
	done := waiter(limited(t), other, key)
	ready <- struct{}{}
	<-cut
	until, at := lastValidUntil(hold)
	if until.IsZero() {
		return ended{}, false
	}
	assert.ErrorIs(t, context.Cause(hold.Context()), relock.ErrLockLost)
	r := await(t, done)
	if !assert.NoError(t, r.err) {
		return ended{}, false
	}
	late := at.Sub(until)
	if late < drift {
		return ended{at.Sub(r.at), late}, true // its context, as the control's
	}
	return ended{until.Sub(r.at), late}, true // a late timer is no fault of the validity
}

// lastValidUntil waits for the end of the hold. It returns until when it was
// last valid, zero if it had ended before: an answer that has passed the proxy
// may come after the cut, and extends it once more.
func lastValidUntil(hold relock.Hold) (until, at time.Time) {
	for {
		select {
		case <-hold.Context().Done():
			return until, time.Now()
		case <-time.After(20 * time.Millisecond):
			if now := hold.ValidUntil(); !now.IsZero() {
				until = now
			}
		}
	}
}

// cutOffSession is cutOff for a lock of package concurrency. It also returns
// zero for one that was lost before the cut.
func cutOffSession(t *testing.T, c *cluster, p *proxy, ready chan<- struct{}, cut <-chan struct{}) time.Duration {
	key := t.Name() + time.Now().String()
	time.Sleep(rand.N(time.Second))
	held, err := concurrency.NewSession(c.client(t, p.address), concurrency.WithTTL(3))
	assert.NoError(t, err)
	if err = concurrency.NewMutex(held, key).Lock(limited(t)); errors.Is(err, concurrency.ErrSessionExpired) {
		return 0
	}
	assert.NoError(t, err)
	other, err := concurrency.NewSession(c.client(t), concurrency.WithTTL(3))
	assert.NoError(t, err)
	defer func() { _ = other.Close() }()
	got := make(chan time.Time, 1)
	go func() {
		defer close(got)
		err := concurrency.NewMutex(other, key).Lock(limited(t))
		if !errors.Is(err, concurrency.ErrSessionExpired) {
			assert.NoError(t, err)
			got <- time.Now()
		}
	}()
	ready <- struct{}{}
	<-cut
	<-held.Done()
	ended := time.Now()
	if next, ok := <-got; ok {
		return ended.Sub(next)
	}
	return 0
}

// The validity counts from before the request, not from its answer, and is
// shorter than the lease.
func TestValidityCountsFromTheSending(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	const long = 12 * time.Second // allows 2 s for a renewal
	p := newProxy(t, c.endpoints[0])
	l := newLocker(t, c.client(t, p.address), etcdlock.WithTTL(long))
	unlock(t, lock(t, l, "warm"))
	hold := lock(t, l, "key")
	p.delay(300 * time.Millisecond)
	sent := time.Now()
	require.NoError(t, hold.Extend(limited(t), time.Second))
	answered := time.Now()
	require.Greater(t, answered.Sub(sent), 300*time.Millisecond)
	end := hold.ValidUntil()
	// The answer took 300 ms, so the request was sent at least that long before
	// it.
	assert.LessOrEqual(t, end.Sub(answered), long-long/100-2*time.Millisecond-300*time.Millisecond)
	p.delay(0)
	unlock(t, hold)
}

// The granted TTL counts, which may be more than what was asked for.
func TestGrantedTTLCounts(t *testing.T) {
	t.Parallel()
	c := newSlowCluster(t) // grants 6s for 5s
	before := time.Now()
	hold := lock(t, newLocker(t, c.client(t), etcdlock.WithTTL(brief)), "key")
	until := hold.ValidUntil()
	require.Greater(t, until.Sub(before), brief+500*time.Millisecond)
	require.Less(t, time.Until(until), brief+time.Second)
	unlock(t, hold)
}

// Renewals that fail for a while cost nothing; the hold lives on.
func TestRenewalErrorsAreSurvived(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	together(t, map[string]action{"refused": refuse, "silent": silence}, func(t *testing.T, a action) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), etcdlock.WithTTL(brief))
		hold := lock(t, l, t.Name())
		f.on("LeaseKeepAlive", 1, a)
		soon(t, "it is renewed after all", func() bool { return f.count("LeaseKeepAlive") > 3 })
		require.NoError(t, hold.Err())
		unlock(t, hold)
	})
}

// Unanswered renewals do not extend the validity, though they extend the lease.
func TestUnansweredRenewalsEndInLoss(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	f := newFaults()
	l := newLocker(t, c.faulty(t, f), etcdlock.WithTTL(brief))
	f.on("LeaseKeepAlive", 0, silence)
	hold := lock(t, l, "key")
	until, s := hold.ValidUntil(), testkit.NewStopwatch(t)
	<-hold.Context().Done()
	after := time.Since(until)
	require.GreaterOrEqual(t, after, time.Duration(0))
	s.Check(after, 100*time.Millisecond)
	require.ErrorIs(t, hold.Err(), relock.ErrLockLost)
	noKeys(t, c.client(t), "key")
	require.Positive(t, f.count("LeaseRevoke"), "the lost lock is released, and not by the end of its lease")
	f.clear()
	unlock(t, lock(t, l, "key")) // under a new lease
	require.ErrorIs(t, hold.Unlock(limited(t)), relock.ErrLockLost)
}

// The next renewal reports a revoked lease as lost, with all its holds. A new
// lease follows.
func TestRevokedLeaseIsFoundLost(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		l := newLocker(t, c.client(t), append(opts, etcdlock.WithTTL(brief))...)
		one, two := lock(t, l, "one"), lock(t, l, "two")
		revokeAll(t, c.client(t))
		for _, hold := range []relock.Hold{one, two} {
			foundLost(t, hold, brief)
		}
		next := lock(t, l, "one")
		require.Greater(t, next.Fence(), one.Fence())
		unlock(t, next)
		err := one.Unlock(limited(t))
		require.ErrorIs(t, err, relock.ErrLockLost)
		require.ErrorIs(t, err, relock.ErrNotHeld)
	})
}

// A call under a revoked lease continues under a new one, as does a single
// attempt.
func TestLockUnderARevokedLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		l := newLocker(t, c.client(t), append(opts, etcdlock.WithTTL(time.Minute))...)
		unlock(t, lock(t, l, "key"))
		revokeAll(t, c.client(t))
		hold, err := l.TryLock(limited(t), "key")
		require.NoError(t, err)
		unlock(t, hold)
		revokeAll(t, c.client(t))
		unlock(t, lock(t, l, "key"))
	})
}

// The next renewal finds a deleted key. The other holds of the lease stay.
func TestDeletedKeyIsFoundLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		l, admin := newLocker(t, c.client(t), append(opts, etcdlock.WithTTL(brief))...), c.client(t)
		one, two := lock(t, l, "one"), lock(t, l, "two")
		_, err := admin.Delete(limited(t), keysOf(t, admin, "one")[0])
		require.NoError(t, err)
		foundLost(t, one, brief)
		require.NoError(t, two.Err())
		unlock(t, two)
	})
}

// It also finds a key that another call of the same Locker has created again:
// one of the two holds stays.
func TestDeletedKeyThatWasMadeAgainIsFoundLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l, admin := newLocker(t, c.client(t), etcdlock.WithTTL(brief)), c.client(t)
	one := lock(t, l, "key")
	done := waiter(limited(t), l, "key")
	_, err := admin.Delete(limited(t), "relock/lock/key/")
	require.NoError(t, err)
	next := await(t, done)
	require.NoError(t, next.err)
	foundLost(t, one, brief)
	require.NoError(t, next.hold.Err())
	unlock(t, next.hold)
}

// An Unlock whose key is missing reports the loss.
func TestUnlockFindsTheLoss(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l, admin := newLocker(t, c.client(t), etcdlock.WithTTL(time.Minute)), c.client(t)
	hold := lock(t, l, "key")
	_, err := admin.Delete(limited(t), "relock/lock/key/")
	require.NoError(t, err)
	err = hold.Unlock(limited(t))
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, err, relock.ErrNotHeld)
}
