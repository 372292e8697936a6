package redlock_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A RedLock says until when minimum holds keep it, unless a holder of the nodes
// that it needs is in the way.
func TestRedLockRefusedByAMinimumHold(t *testing.T) {
	b := newRed(t, 3)
	const minimum = locktest.FaultLease * 9 / 10
	l := b.Patient(relock.WithMinHold(minimum))
	waits := b.Patient(relock.WithMinHold(minimum), relock.WithBlockTimeout(locktest.FaultLease/20))
	calls := map[string]func(context.Context) error{" (one attempt)": l.TryLock, "": waits.Lock}
	refused := func(call func(context.Context) error) (err error) {
		testkit.Eventually(t, testkit.Patience, func() bool {
			err = call(t.Context())
			return errors.Is(err, relock.ErrLockAcquiredByOthers)
		}, "an answer within the wait")
		return err
	}
	requireUnnamed := func() {
		t.Helper()
		for _, call := range calls {
			require.NotContains(t, refused(call).Error(), "minimum hold")
		}
	}
	b.Connect(b.Patient())
	h := locktest.Take(t, l.Acquire)
	requireUnnamed()
	before := time.Now()
	require.NoError(t, h.Unlock(t.Context()))
	b.StoreHolds(time.Minute, "", "other")
	for end, call := range calls {
		named := regexp.MustCompile(`lock is held by others: minimum hold until (\S+)` + regexp.QuoteMeta(end) + `$`)
		var found []string
		testkit.Eventually(t, testkit.Patience, func() bool { // unless the other hold and one more node refuse it first
			found = named.FindStringSubmatch(refused(call).Error())
			return found != nil
		}, "no minimum hold is named")
		until, err := time.Parse("2006-01-02T15:04:05.000Z07:00", found[1])
		require.NoError(t, err)
		require.WithinRange(t, until, before, before.Add(minimum))
	}
	b.StoreHolds(time.Minute, "other", "other")
	requireUnnamed()
}
