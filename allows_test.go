package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// reentrantKinds are the locks that an owner can take again.
func reentrantKinds(c *Client) map[string]func(opts ...LockOption) anyLock {
	return map[string]func(opts ...LockOption) anyLock{
		"ReentrantLock": func(opts ...LockOption) anyLock { return owned("me", NewReentrantLock("k", c, opts...)) },
		"RWLock":        func(opts ...LockOption) anyLock { return owned("me", NewRWLock("k", c, opts...)) },
	}
}

// A level cannot have what the hold does not have: it is refused, and the hold goes on as it was.
func TestLevelThatAsksForMoreThanTheHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for what, tt := range map[string]struct {
		outer, inner []LockOption
		want         error
		says         string
	}{
		"a token":       {nil, []LockOption{WithFencing()}, ErrInvalid, "WithFencing"},
		"replicas":      {nil, []LockOption{WithReplicas(1, 50*time.Millisecond)}, ErrInvalid, "WithReplicas"},
		"the fair mode": {nil, []LockOption{WithFair()}, ErrKeyConflict, ""},
		"no fair mode":  {[]LockOption{WithFair()}, nil, ErrKeyConflict, ""},
	} {
		for name, lock := range reentrantKinds(newTestClient(t, s)) {
			t.Run(what+"/"+name, func(t *testing.T) {
				outer, err := lock(tt.outer...).Acquire(t.Context())
				require.NoError(t, err)
				for _, opts := range [][]LockOption{tt.inner, append([]LockOption{WithBlock()}, tt.inner...)} {
					_, err = lock(opts...).Acquire(t.Context())
					require.ErrorIs(t, err, tt.want)
					require.ErrorContains(t, err, tt.says)
				}
				require.NoError(t, outer.Err())
				require.NoError(t, outer.Unlock(t.Context()))
				require.ErrorIs(t, lock().Unlock(t.Context()), ErrNotHeld)
			})
		}
	}
}

// A level that asks for less has what the hold has: a token, and replicas without which belief moves for none.
func TestLevelThatAsksForLessThanTheHold(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	for name, lock := range reentrantKinds(newTestClient(t, r.master)) {
		t.Run(name, func(t *testing.T) {
			outer, err := lock(oneReplica, WithFencing()).Acquire(t.Context())
			require.NoError(t, err)
			inner, err := lock().Acquire(t.Context())
			require.NoError(t, err)
			require.Equal(t, outer.Fence(), inner.Fence())
			until := outer.ValidUntil()
			r.cut()
			_, err = lock(WithWatchdog(time.Minute)).Acquire(t.Context())
			require.ErrorIs(t, err, ErrReplicas)
			require.ErrorIs(t, inner.Extend(t.Context(), time.Hour), ErrReplicas)
			require.Equal(t, until, outer.ValidUntil())
			require.NoError(t, inner.Unlock(t.Context()))
			require.NoError(t, outer.Unlock(t.Context()))
			r.mend()
		})
	}
}
