package acquire_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
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
