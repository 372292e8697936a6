package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/scripttest"
)

// A copy of an acquire that was answered, delivered after the release, is the one copy that is not harmless: nothing is in doubt, so
// nothing cleans up after it. It takes a free key until its lease ends. TCP delivers no such copies; only something between client and
// server that repeats requests could. Here is all that happens then: everybody is refused, the owner of the former hold too, nobody
// believes in the lock, and it is free when the lease ends.
func TestLateCopyOfAGrantedAcquire(t *testing.T) {
	const lease = 900 * time.Millisecond
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range acquirers() {
		cells = append(cells, cellRun{op.fullName(), func(t testing.TB) {
			c := newCell(t, s, WithCommandTimeout(cellPatience))
			op.loseSET(c)
			c.proxy.On(op.match, 1, faults.Hold)
			lock := op.lock(c.client, lease)
			require.NoError(t, lock.Lock(t.Context()))
			require.NoError(t, lock.Unlock(t.Context()))
			requireFree(t, s, c.client, cellKey)

			delivered := time.Now()
			answers := c.proxy.Release()
			require.Len(t, answers, 1)
			require.Contains(t, []string{"+OK", ":1"}, answers[0], "the copy did not take the key")
			taken := c.read()
			require.Equal(t, 1, c.levels())
			require.False(t, taken.earliest.After(time.Now().Add(lease)), "for longer than its lease")

			locks := []anyLock{lock, op.lock(c.client, lease), op.lock(c.other, lease)}
			for _, l := range locks {
				if err := l.TryLock(t.Context()); time.Since(delivered) < lease {
					require.ErrorIs(t, err, ErrLockAcquiredByOthers)
				}
			}
			require.Empty(t, believed(c.client))
			require.ErrorIs(t, lock.Unlock(t.Context()), ErrNotHeld)
			if after := c.read(); time.Since(delivered) < lease {
				c.requireUntouched(taken, after)
			}
			next := op.lock(c.client, lease, WithBlock())
			require.NoError(t, next.Lock(t.Context()))
			require.GreaterOrEqual(t, time.Since(delivered), lease-scripttest.ClockGrain, "exclusion lasted until the end of its lease")
			require.Less(t, time.Since(delivered), lease+cleanWithin)
			require.NoError(t, next.Unlock(t.Context()))
		}})
	}
	together(t, cells)
}
