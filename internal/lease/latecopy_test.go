package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/scripttest"
)

// A copy of an acquire that was answered, delivered after the release, is the one copy that is not harmless: nothing is in doubt, so
// nothing cleans up after it. It takes a free key until its lease ends. TCP delivers no such copies; only something between client and
// server that repeats requests could. Here is all that happens then: everybody is refused, the owner of the former hold too, nobody
// believes in the lock, and it is free when the lease ends.
func TestLateCopyOfAGrantedAcquire(t *testing.T) {
	const lease = 900 * time.Millisecond
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for _, op := range locktest.Acquirers() {
		cells = append(cells, locktest.CellRun{Name: op.FullName(), Run: func(t testing.TB) {
			c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.CellPatience))
			op.LoseSET(c)
			c.Proxy.On(op.Match, 1, faults.Hold)
			lock := op.Lock(c.Client, lease)
			require.NoError(t, lock.Lock(t.Context()))
			require.NoError(t, lock.Unlock(t.Context()))
			locktest.RequireFree(t, s, c.Client, locktest.CellKey)

			delivered := time.Now()
			answers := c.Proxy.Release()
			require.Len(t, answers, 1)
			require.Contains(t, []string{"+OK", ":1"}, answers[0], "the copy did not take the key")
			taken := c.Read()
			require.Equal(t, 1, c.Levels())
			require.False(t, taken.Earliest.After(time.Now().Add(lease)), "for longer than its lease")

			locks := []locktest.AnyLock{lock, op.Lock(c.Client, lease), op.Lock(c.Other, lease)}
			for _, l := range locks {
				if err := l.TryLock(t.Context()); time.Since(delivered) < lease {
					require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
				}
			}
			require.Empty(t, locktest.Believed(c.Client))
			require.ErrorIs(t, lock.Unlock(t.Context()), relock.ErrNotHeld)
			if after := c.Read(); time.Since(delivered) < lease {
				c.RequireUntouched(taken, after)
			}
			next := op.Lock(c.Client, lease, relock.WithBlock())
			require.NoError(t, next.Lock(t.Context()))
			require.GreaterOrEqual(t, time.Since(delivered), lease-scripttest.ClockGrain, "exclusion lasted until the end of its lease")
			require.Less(t, time.Since(delivered), lease+locktest.CleanWithin)
			require.NoError(t, next.Unlock(t.Context()))
		}})
	}
	locktest.Together(t, cells)
}
