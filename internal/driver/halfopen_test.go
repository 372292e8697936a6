package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// The server is gone without a word: connections stay and are taken, and nothing comes back on any of them. Holds are lost when their
// belief ends, callers return at their deadlines, and when the network is back the lock is free.
func TestSilentNetwork(t *testing.T) {
	const lease = 900 * time.Millisecond
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for _, op := range locktest.Renewers() {
		cells = append(cells, locktest.CellRun{Name: op.Name, Run: func(t testing.TB) {
			c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.DefaultCommandTimeout))
			lock := op.Lock(c.Client, lease)
			holds := make([]relock.Hold, op.Levels)
			for i := range holds {
				var err error
				holds[i], err = lock.Acquire(t.Context())
				require.NoError(t, err)
			}
			c.Proxy.Stall()
			returned := c.CallsWithDeadlines(op)
			c.RequireLossInTime(locktest.Level(holds[0]))
			for name, err := range returned {
				require.NoError(t, testkit.ResultWithin(t, err, locktest.CellPatience), name)
			}
			c.Proxy.Resume()
			for _, h := range holds {
				require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			}
			ctx, cancel := context.WithTimeout(t.Context(), locktest.CellPatience)
			defer cancel()
			require.NoError(t, op.Lock(c.Other, lease, relock.WithBlock()).Lock(ctx))
		}})
	}
	locktest.Together(t, cells)
}
