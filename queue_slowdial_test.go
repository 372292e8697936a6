package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// Where connecting takes longer than the poller and the subscription have for it, who waits asks by itself, over the pool.
func TestWaiterWhoseClientConnectsSlowly(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("SELECT"), faults.Every, faults.Delay(minConnect+200*time.Millisecond))
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, WithDatabase(1))
	holder := sibling(t, s, c, WithDatabase(1))
	h, err := NewRedisLock("k", holder).Acquire(t.Context())
	require.NoError(t, err)
	waits := async(t, func() error { return NewRedisLock("k", c, WithBlock()).Lock(t.Context()) })
	eventually(t, queuePatience, func() bool { return inspect(t, holder, "k").Waiting == 1 }, "waits")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, resultWithin(t, waits, queuePatience))
}
