package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// reentrantKinds are the locks that an owner can take again.
func reentrantKinds(c *relock.Client) map[string]func(opts ...relock.LockOption) locktest.AnyLock {
	return map[string]func(opts ...relock.LockOption) locktest.AnyLock{
		"ReentrantLock": func(opts ...relock.LockOption) locktest.AnyLock {
			return relock.NewReentrantLock("k", c, append(opts, relock.WithOwner("me"))...)
		},
		"RWLock": func(opts ...relock.LockOption) locktest.AnyLock {
			return relock.NewRWLock("k", c, append(opts, relock.WithOwner("me"))...)
		},
	}
}

// A level cannot have what the hold does not have: it is refused, and the hold goes on as it was.
func TestLevelThatAsksForMoreThanTheHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for what, tt := range map[string]struct {
		outer, inner []relock.LockOption
		want         error
		says         string
	}{
		"a token":       {nil, []relock.LockOption{relock.WithFencing()}, relock.ErrInvalid, "WithFencing"},
		"replicas":      {nil, []relock.LockOption{relock.WithReplicas(1, 50*time.Millisecond)}, relock.ErrInvalid, "WithReplicas"},
		"the fair mode": {nil, []relock.LockOption{relock.WithFair()}, relock.ErrKeyConflict, ""},
		"no fair mode":  {[]relock.LockOption{relock.WithFair()}, nil, relock.ErrKeyConflict, ""},
	} {
		for name, lock := range reentrantKinds(locktest.NewTestClient(t, s)) {
			t.Run(what+"/"+name, func(t *testing.T) {
				outer, err := lock(tt.outer...).Acquire(t.Context())
				require.NoError(t, err)
				for _, opts := range [][]relock.LockOption{tt.inner, append([]relock.LockOption{relock.WithBlock()}, tt.inner...)} {
					_, err = lock(opts...).Acquire(t.Context())
					require.ErrorIs(t, err, tt.want)
					require.ErrorContains(t, err, tt.says)
				}
				require.NoError(t, outer.Err())
				require.NoError(t, outer.Unlock(t.Context()))
				require.ErrorIs(t, lock().Unlock(t.Context()), relock.ErrNotHeld)
			})
		}
	}
}

// A level that asks for less has what the hold has: a token, and replicas without which belief moves for none.
func TestLevelThatAsksForLessThanTheHold(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	for name, lock := range reentrantKinds(locktest.NewTestClient(t, r.Master)) {
		t.Run(name, func(t *testing.T) {
			outer, err := lock(locktest.OneReplica, relock.WithFencing()).Acquire(t.Context())
			require.NoError(t, err)
			inner, err := lock().Acquire(t.Context())
			require.NoError(t, err)
			require.Equal(t, outer.Fence(), inner.Fence())
			until := outer.ValidUntil()
			r.Cut()
			_, err = lock(relock.WithWatchdog(time.Minute)).Acquire(t.Context())
			require.ErrorIs(t, err, relock.ErrReplicas)
			require.ErrorIs(t, inner.Extend(t.Context(), time.Hour), relock.ErrReplicas)
			require.Equal(t, until, outer.ValidUntil())
			require.NoError(t, inner.Unlock(t.Context()))
			require.NoError(t, outer.Unlock(t.Context()))
			r.Mend()
		})
	}
}
