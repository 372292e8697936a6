package relock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// A renewal that comes after the Unlock revives nothing.
func TestRenewalAfterUnlock(t *testing.T) {
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range renewers() {
		cells = append(cells, cellRun{op.name, func(t testing.TB) {
			c := newCell(t, s, WithCommandTimeout(cellPatience))
			lock := op.lock(c.client, 2400*time.Millisecond)
			for range op.levels {
				require.NoError(t, lock.Lock(t.Context()))
			}
			done := c.proxy.On(op.match, 1, faults.HoldOnly)
			c.await(done, "not renewed")
			for range op.levels {
				require.NoError(t, lock.Unlock(t.Context()))
			}
			requireFree(t, s, c.client, cellKey)
			require.Equal(t, []string{":0"}, c.proxy.Release())
			requireFree(t, s, c.client, cellKey)
		}})
	}
	together(t, cells)
}

// Renewals that are executed but never answered do not lengthen the belief, although the key lives on.
func TestUnansweredRenewalsEndInLoss(t *testing.T) {
	const length = 1800 * time.Millisecond
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range renewers() {
		cells = append(cells, cellRun{op.name, func(t testing.TB) {
			c := newCell(t, s, WithCommandTimeout(cellPatience))
			c.proxy.On(op.match, faults.Every, faults.DropAnswer)
			start := time.Now()
			lock := op.lock(c.client, length)
			for range op.levels - 1 {
				require.NoError(t, lock.Lock(t.Context()))
			}
			h, err := lock.Acquire(t.Context())
			require.NoError(t, err)
			until := h.ValidUntil()
			again, at := c.proxy.Await(op.match, 2, length), c.read()
			if now := h.ValidUntil(); !now.IsZero() {
				require.Equal(t, until, now, "believed an unanswered renewal")
				require.True(t, !again || at.earliest.After(until.Add(length/5)), "the first one was not executed")
			}
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), cellPatience), ErrLockLost)
			require.GreaterOrEqual(t, time.Since(start), length-lease.Drift(length))
			require.Positive(t, c.proxy.Count(op.match), "no renewal was sent")
			require.ErrorIs(t, h.Err(), ErrLockLost)
			c.requireLevels(0) // lost, so given back
			require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
		}})
	}
	together(t, cells)
}

// A context that has ended does not keep an Unlock from giving the key back.
func TestUnlockAfterTheEndOfContext(t *testing.T) {
	s := newFaultServer(t)
	var cells []cellRun
	releases := variantsThat(func(op variant) bool { return op.releases })
	for _, op := range releases {
		cells = append(cells, cellRun{op.fullName(), func(t testing.TB) {
			c := newCell(t, s, WithCommandTimeout(cellPatience))
			lock := op.lock(c.client, cellLease)
			ctx, cancel := context.WithCancel(t.Context())
			for range op.levels {
				require.NoError(t, lock.Lock(ctx))
			}
			cancel()
			for left := op.levels - 1; left >= 0; left-- {
				require.NoError(t, lock.Unlock(ctx))
				require.Equal(t, left, c.levels())
			}
			require.ErrorIs(t, lock.Unlock(ctx), ErrNotHeld)
		}})
	}
	together(t, cells)
}

// Renewals share a connection: a batch of them that is cut in the middle, or comes and is answered byte by byte, costs no hold.
func TestFaultsInABatchOfRenewals(t *testing.T) {
	const length, holds = 3 * time.Second, 20
	s := newFaultServer(t)
	renewals := faults.Script(script.Renew.SHA)
	var cells []cellRun
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
		cells = append(cells, cellRun{f.name, func(t testing.TB) {
			c := newCell(t, s, WithWatchdog(length))
			done := c.proxy.On(renewals, f.n, f.action)
			all, untils := make([]*lease.Hold, holds), make([]time.Time, holds)
			for i := range all {
				h, err := NewRedisLock(fmt.Sprint("of the batch ", i), c.client).Acquire(t.Context())
				require.NoError(t, err)
				all[i], untils[i] = h.(hold).level, h.ValidUntil()
			}
			for _, h := range all {
				h.Lease().RenewNow() // they are due now
			}
			c.await(done, "not renewed")
			for i, h := range all {
				c.waitFor(cellPatience, func() bool { return h.ValidUntil().After(untils[i]) || h.Err() != nil }, "not renewed again")
				require.NoError(t, h.Err())
				until, left := h.ValidUntil(), pttl(t, s, c.client, h.Key())
				require.False(t, until.After(time.Now().Add(left+scripttest.ClockGrain)), "believed for longer than the server has it")
				require.NoError(t, h.Unlock())
			}
		}})
	}
	together(t, cells)
}
