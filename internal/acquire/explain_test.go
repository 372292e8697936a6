package acquire_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A call reads the key for the text of its error. Whatever happens meanwhile,
// its result is what the lock has answered.
func TestReadForTheTextChangesNoResult(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	isRead := faults.Script(script.Inspect.SHA)
	reentrantK, plainK := locktest.AllKinds["ReentrantLock"], locktest.AllKinds["RedisLock"]
	block, keeps := relock.WithBlock(), relock.WithMinHold(time.Minute)
	for name, tt := range map[string]struct {
		held locktest.NewLock
		kind string
		opts []relock.LockOption
		want error
	}{
		"plain":          {reentrantK, "RedisLock", nil, relock.ErrKeyConflict},
		"plain, waiting": {reentrantK, "RedisLock", []relock.LockOption{block}, relock.ErrKeyConflict},
		"reentrant":      {plainK, "ReentrantLock", nil, relock.ErrKeyConflict},
		"read/write":     {plainK, "RWLock", nil, relock.ErrKeyConflict},
		"several":        {reentrantK, "MultiLock", []relock.LockOption{block}, relock.ErrKeyConflict},
		"minimum hold":   {plainK, "RedisLock", []relock.LockOption{keeps}, relock.ErrLockAcquiredByOthers},
	} {
		for _, end := range []string{"cancelled", "closed"} {
			t.Run(name+", "+end, func(t *testing.T) {
				t.Parallel()
				c, p := locktest.Behind(t, s)
				require.NoError(t, tt.held("k", c).Lock(relock.ContextWithOwner(t.Context(), "holder")))
				ctx, cancel := context.WithCancel(t.Context())
				reads := make(chan struct{}, 10)
				p.On(func(args []string) bool {
					if !isRead(args) {
						return false
					}
					if end == "cancelled" {
						cancel()
					}
					reads <- struct{}{}
					return true
				}, faults.Every, faults.DropAnswer)
				done := testkit.Async(t, func() error { return locktest.AllKinds[tt.kind]("k", c, tt.opts...).Lock(ctx) })
				testkit.Eventually(t, testkit.Patience, func() bool { return len(reads) > 0 }, "the read")
				if end == "closed" {
					require.NoError(t, c.Close())
				}
				err := testkit.ResultWithin(t, done, testkit.Patience)
				require.ErrorIs(t, err, tt.want)
				require.NotErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, relock.ErrClosed)
				cancel()
			})
		}
	}
}

// The nodes of a RedLock are read for the text once the call has ended, so slow
// reads hide no conflict.
func TestReadForTheTextHidesNoConflictOfNodes(t *testing.T) {
	b := newRed(t, 3)
	for n, c := range b.Clients {
		require.NoError(t, relock.NewReentrantLock("k", c).Lock(t.Context()))
		b.Proxies[n].On(faults.Script(script.Inspect.SHA), faults.Every, faults.DropAnswer)
	}
	const lease = 2 * time.Second // a round waits for a fifth of it
	l := relock.NewRedLock("k", b.Clients, relock.WithMaxLease(lease), relock.WithWatchdog(lease), relock.WithBlockTimeout(testkit.Patience))
	err := l.Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrKeyConflict)
	require.False(t, relock.IsRetryableErr(err))
	require.ErrorContains(t, err, "requested as a plain lock")
}

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
