package proof

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// fairOrder is clients of a set that wait for a fair lock, one after the
// other, while its master is replaced.
type fairOrder struct {
	testing.TB
	set     locktest.FailingSet
	lock    string
	clients []*relock.Client // the first one is the holder
}

// newFairOrder returns some clients, which newClient makes.
func newFairOrder(t testing.TB, set locktest.FailingSet, lock string, newClient func() *relock.Client) *fairOrder {
	o := &fairOrder{TB: t, set: set, lock: lock}
	for range 7 {
		o.clients = append(o.clients, newClient())
	}
	return o
}

// require takes the lock. All others wait for it, and every replica has that.
// Then it fails the master over, and unlocks. The waiters must be served in the
// order in which they came.
func (o *fairOrder) require(failOver func(h relock.Hold)) {
	o.Helper()
	h := locktest.Take(o, relock.NewRedisLock(o.lock, o.clients[0], relock.WithFair()).Acquire)
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.Context()))
	var got []int // guarded by the lock
	var results []<-chan error
	for i, c := range o.clients[1:] {
		lock := relock.NewRedisLock(o.lock, c, relock.WithFair(), relock.WithBlock())
		results = append(results, testkit.Async(o, func() error {
			return lock.Do(ctx, func(context.Context) error {
				got = append(got, i)
				return nil
			})
		}))
		o.awaitCopied(i + 1)
	}
	o.Cleanup(cancel) // runs ahead of the wait for the results
	failOver(h)
	if err := h.Unlock(context.Background()); err != nil {
		require.ErrorIs(o, err, relock.ErrUnconfirmed) // it is repeated
	}
	testkit.AllWithin(o, results, testkit.Patience)
	require.True(o, slices.IsSorted(got), "served in the order %v", got)
}

// awaitCopied waits until n waiters are queued, and every replica has them.
func (o *fairOrder) awaitCopied(n int) {
	o.Helper()
	key := locktest.KeyOf(o.clients[0], o.lock)
	master := o.set.MasterOf(o, key)
	testkit.Eventually(o, testkit.Patience,
		func() bool { return master.Do(o, "ZCARD", key+":q") == int64(n) }, "is queued")
	conn := master.Dial(o)
	defer conn.Close() //nolint:errcheck // nothing is pending
	_, err := conn.Do("SET", "probe:{"+o.lock+"}", 1)
	require.NoError(o, err)
	acks, err := conn.Do("WAIT", len(o.set.Replicas(master)), testkit.Patience.Milliseconds())
	require.NoError(o, err)
	require.EqualValues(o, len(o.set.Replicas(master)), acks)
}

// awaitAt waits until the holder reaches this master. What it sends to the old
// one may be lost.
func (o *fairOrder) awaitAt(master *redistest.Server, h relock.Hold) {
	o.Helper()
	testkit.Eventually(o, testkit.Patience, func() bool {
		return h.Extend(o.Context(), 2*time.Minute) == nil && locktest.PTTL(o, master, o.clients[0], o.lock) > time.Minute
	}, "the holder has not found the new master")
}
