package acquire_test

import (
	"context"
	"errors"
	"regexp"
	"sync/atomic"
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

// A call that meets another kind, or a minimum hold, sends nothing more for the
// text of its error. A plain lock has sent SET NX before its script.
func TestRefusalCostsNoFurtherRequest(t *testing.T) {
	t.Parallel()
	isCancel := faults.Script(script.Cancel.SHA)
	reentrantK, plainK := locktest.AllKinds["ReentrantLock"], locktest.AllKinds["RedisLock"]
	block, keeps := relock.WithBlock(), relock.WithMinHold(time.Minute)
	for name, tt := range map[string]struct {
		held     locktest.NewLock
		kind     string
		opts     []relock.LockOption
		requests int64
		text     string
	}{
		"plain": {reentrantK, "RedisLock", nil, 2, "held as a ReentrantLock, requested as a RedisLock"},
		"plain, waiting": {
			reentrantK, "RedisLock", []relock.LockOption{block}, 2, "held as a ReentrantLock, requested as a RedisLock",
		},
		"plain, fair": {reentrantK, "RedisLock", []relock.LockOption{relock.WithFair()}, 1, "held as a ReentrantLock, " +
			"requested as a RedisLock"},
		"reentrant":  {plainK, "ReentrantLock", nil, 1, "held as a RedisLock, requested as a ReentrantLock"},
		"read/write": {plainK, "RWLock", nil, 1, "held as a RedisLock, requested as an RWLock"},
		"semaphore":  {plainK, "Semaphore", nil, 1, "held as a RedisLock, requested as a Semaphore"},
		"several": {
			reentrantK, "MultiLock", []relock.LockOption{block}, 1, "held as a ReentrantLock, requested as a MultiLock",
		},
		"minimum hold": {plainK, "RedisLock", []relock.LockOption{keeps}, 2, "minimum hold until"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, p := locktest.Behind(t, redistest.Shared(t))
			first := tt.held("k", c, keeps)
			require.NoError(t, first.Lock(t.Context()))
			if tt.text == "minimum hold until" {
				require.NoError(t, first.Unlock(t.Context()))
			}
			call := locktest.AllKinds[tt.kind]("k", c, tt.opts...).Lock
			require.Error(t, call(t.Context())) // the server knows the script now
			var requests atomic.Int64
			p.On(func(args []string) bool {
				if faults.Any(args) && !isCancel(args) { // of the queue entry; the call does not wait for it
					requests.Add(1)
				}
				return false
			}, faults.Every, faults.DropAnswer)
			require.ErrorContains(t, call(t.Context()), tt.text)
			require.Equal(t, tt.requests, requests.Load())
		})
	}
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
