package relock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

const tryAgain = "TRYAGAIN Multiple keys request during rehashing of slot"

// A Cluster that moves the slot of a lock refuses scripts that name three keys of it.
func TestReleaseWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	s := newFaultServer(t)
	for kind, r := range requestsOf {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, s, WithCommandTimeout(4*answerLimit))
			c.proxy.On(r.release, 1, faults.ErrorLine(tryAgain))
			h := c.take(kind)
			require.NoError(t, h.Unlock(t.Context()))
			requireFree(t, s, c.client, cellKey)
			require.Equal(t, 2, c.proxy.Count(r.release), "the second for the lock alone")
		})
		t.Run(kind+", in the background", func(t *testing.T) {
			t.Parallel()
			c := newCell(t, s, WithCommandTimeout(4*answerLimit))
			h := c.take(kind)
			c.proxy.On(r.release, 1, faults.DropRequest)
			c.proxy.On(r.release, 2, faults.ErrorLine(tryAgain))
			require.NoError(t, h.Unlock(t.Context()))
			requireFree(t, s, c.client, cellKey)
			require.GreaterOrEqual(t, c.proxy.Count(r.release), 3, "after the second, for the lock alone")
		})
	}
}

// A user who may touch the lock alone, as one without a queue needs no more, locks and unlocks.
func TestReleaseWithTheLocksKeyAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "narrow", "on", ">pw", "~relock:{k}", "&*", "+@all")
	c, err := NewClient(s.Network, s.Address, "pw", WithUsername("narrow"))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for name, newLock := range kinds {
		l := newLock("k", c)
		require.NoError(t, l.Lock(t.Context()), name)
		require.NoError(t, l.Unlock(t.Context()), name)
		requireFree(t, s, c, "k")
		require.ErrorIs(t, newLock("other", c).Lock(t.Context()), ErrDenied)
	}
}
