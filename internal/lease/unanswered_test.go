package lease_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// A renewal that comes after the Unlock revives nothing.
func TestRenewalAfterUnlock(t *testing.T) {
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for _, op := range locktest.Renewers() {
		cells = append(cells, locktest.CellRun{Name: op.Name, Run: func(t testing.TB) {
			c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.CellPatience))
			lock := op.Lock(c.Client, 2400*time.Millisecond)
			for range op.Levels {
				require.NoError(t, lock.Lock(t.Context()))
			}
			done := c.Proxy.On(op.Match, 1, faults.HoldOnly)
			c.Await(done, "not renewed")
			for range op.Levels {
				require.NoError(t, lock.Unlock(t.Context()))
			}
			locktest.RequireFree(t, s, c.Client, locktest.CellKey)
			require.Equal(t, []string{":0"}, c.Proxy.Release())
			locktest.RequireFree(t, s, c.Client, locktest.CellKey)
		}})
	}
	locktest.Together(t, cells)
}

// Renewals that are executed but never answered do not lengthen the belief, although the key lives on.
func TestUnansweredRenewalsEndInLoss(t *testing.T) {
	const length = 1800 * time.Millisecond
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for _, op := range locktest.Renewers() {
		cells = append(cells, locktest.CellRun{Name: op.Name, Run: func(t testing.TB) {
			c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.CellPatience))
			c.Proxy.On(op.Match, faults.Every, faults.DropAnswer)
			start := time.Now()
			lock := op.Lock(c.Client, length)
			for range op.Levels - 1 {
				require.NoError(t, lock.Lock(t.Context()))
			}
			h, err := lock.Acquire(t.Context())
			require.NoError(t, err)
			until := h.ValidUntil()
			again, at := c.Proxy.Await(op.Match, 2, length), c.Read()
			if now := h.ValidUntil(); !now.IsZero() {
				require.Equal(t, until, now, "believed an unanswered renewal")
				require.True(t, !again || at.Earliest.After(until.Add(length/5)), "the first one was not executed")
			}
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), locktest.CellPatience), relock.ErrLockLost)
			require.GreaterOrEqual(t, time.Since(start), length-lease.Drift(length))
			require.Positive(t, c.Proxy.Count(op.Match), "no renewal was sent")
			require.ErrorIs(t, h.Err(), relock.ErrLockLost)
			c.RequireLevels(0) // lost, so given back
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
		}})
	}
	locktest.Together(t, cells)
}

// A context that has ended does not keep an Unlock from giving the key back.
func TestUnlockAfterTheEndOfContext(t *testing.T) {
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	releases := locktest.VariantsThat(func(op locktest.Variant) bool { return op.Releases })
	for _, op := range releases {
		cells = append(cells, locktest.CellRun{Name: op.FullName(), Run: func(t testing.TB) {
			c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.CellPatience))
			lock := op.Lock(c.Client, locktest.CellLease)
			ctx, cancel := context.WithCancel(t.Context())
			for range op.Levels {
				require.NoError(t, lock.Lock(ctx))
			}
			cancel()
			for left := op.Levels - 1; left >= 0; left-- {
				require.NoError(t, lock.Unlock(ctx))
				require.Equal(t, left, c.Levels())
			}
			require.ErrorIs(t, lock.Unlock(ctx), relock.ErrNotHeld)
		}})
	}
	locktest.Together(t, cells)
}

// Renewals share a connection: a batch of them that is cut in the middle, or comes and is answered byte by byte, costs no hold.
func TestFaultsInABatchOfRenewals(t *testing.T) {
	const length, holds = 3 * time.Second, 20
	s := locktest.NewFaultServer(t)
	renewals := faults.Script(script.Renew.SHA)
	var cells []locktest.CellRun
	for _, f := range []struct {
		name   string
		n      int
		action faults.Action
	}{
		{"cut in the first answer", 1, faults.CutInAnswer},
		{"cut in an answer", holds / 2, faults.CutInAnswer},
		{"cut in a request", holds / 2, faults.CutInRequest},
		{"doubled", faults.Every, faults.Double},
		{"byte by byte", faults.Every, faults.SlowRequest(5 * time.Millisecond)},
		{"answers byte by byte", faults.Every, faults.SlowAnswer(5 * time.Millisecond)},
	} {
		cells = append(cells, locktest.CellRun{Name: f.name, Run: func(t testing.TB) {
			c := locktest.NewCell(t, s, relock.WithWatchdog(length))
			done := c.Proxy.On(renewals, f.n, f.action)
			all, untils := make([]*lease.Hold, holds), make([]time.Time, holds)
			for i := range all {
				h, err := relock.NewRedisLock(fmt.Sprint("of the batch ", i), c.Client).Acquire(t.Context())
				require.NoError(t, err)
				all[i], untils[i] = locktest.Level(h), h.ValidUntil()
			}
			for _, h := range all {
				h.Lease().RenewNow() // they are due now
			}
			c.Await(done, "not renewed")
			for i, h := range all {
				c.WaitFor(locktest.CellPatience, func() bool { return h.ValidUntil().After(untils[i]) || h.Err() != nil }, "not renewed again")
				require.NoError(t, h.Err())
				until, left := h.ValidUntil(), locktest.Pttl(t, s, c.Client, h.Key())
				require.False(t, until.After(time.Now().Add(left+scripttest.ClockGrain)), "believed for longer than the server has it")
				require.NoError(t, h.Unlock())
			}
		}})
	}
	locktest.Together(t, cells)
}
