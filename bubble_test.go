package relock_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A client in a bubble of testing/synctest leaves nothing behind for clients
// outside of it, which would end the program: no timer and no channel.
func TestClientInABubble(t *testing.T) {
	s := redistest.StartTCP(t)
	use := func(t *testing.T) {
		c, err := relock.NewClient(s.Network, s.Address, "", relock.WithBlock())
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 20 { // more than have connections for themselves
			lock := relock.NewRedisLock("k", c)
			all.Go(func() {
				for range 3 {
					assert.NoError(t, lock.Do(t.Context(), func(context.Context) error { return nil }))
				}
				assert.NoError(t, c.Ping(t.Context()))
			})
		}
		all.Wait()
		require.NoError(t, c.Close())
	}
	for range 3 {
		testkit.Bubble(t, use)
		use(t)
	}
}
