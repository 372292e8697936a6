package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// The loss of a machine that was suspended says so, for all keys of a MultiLock
// too.
func TestSuspendSaysSo(t *testing.T) {
	t.Parallel()
	c, sleep := sleepy(t, redistest.Shared(t))
	one, err := NewRedisLock("one", c).Acquire(t.Context())
	require.NoError(t, err)
	several, err := NewMultiLock([]string{"a", "b"}, c).Acquire(t.Context())
	require.NoError(t, err)
	sleep(maxSleep + time.Millisecond)
	for _, h := range []Hold{one, several} {
		require.ErrorIs(t, h.Err(), ErrLockLost)
		require.ErrorContains(t, h.Err(), ": lock lost (machine was suspended)")
		require.ErrorContains(t, h.Unlock(t.Context()), ": lock lost (machine was suspended)")
	}
	require.EqualValues(t, 3, c.Stats().Losses)
}

// A refused hold whose reason cannot be read in time says that the server no
// longer has it, not that it was not renewed.
func TestRefusedHoldWithoutAReason(t *testing.T) {
	t.Parallel()
	h, err := NewRedisLock("k", newTestClient(t, redistest.Shared(t))).Acquire(t.Context())
	require.NoError(t, err)
	leaseOf(h).Refuse(time.Millisecond)
	<-h.Context().Done()
	require.ErrorContains(t, h.Err(), "lock lost (the server no longer has it)")
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
}
