package acquire_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// The nodes that give the lock back tell a call that waits: polls would take it more than a second.
func TestRedLockWaiterIsWoken(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]relock.LockOption{"plain": nil, "fenced": {relock.WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
			others := b.Others()
			var took []time.Duration
			for range 10 {
				h, err := b.Lock(b.Clients, opts...).Acquire(t.Context())
				require.NoError(t, err)
				w := b.WaitPatiently(t.Context(), others, opts...)
				b.AwaitListed(1, others)
				next, d := b.Granted(w, h)
				took = append(took, d)
				require.NoError(t, next.Unlock(t.Context()))
				b.RequireFree(time.Second)
			}
			b.RequireNobodyListed(others)
			t.Logf("median %v, longest %v", locktest.Middle(took), took[len(took)-1])
			require.Less(t, locktest.Middle(took), locktest.CellLeisure/5)
		})
	}
}

// One node that tells is enough.
func TestRedLockIsWokenByOneNode(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	others := b.Others()
	for _, deaf := range b.Servers[1:] {
		deaf.Do(t, "ACL", "SETUSER", "default", "-subscribe")
	}
	var took []time.Duration
	for range 5 {
		h, err := b.Lock(b.Clients).Acquire(t.Context())
		require.NoError(t, err)
		testkit.Eventually(t, 5*time.Second, func() bool { return b.Holding() == 3 }, "has all nodes")
		w := b.WaitPatiently(t.Context(), others)
		testkit.Eventually(t, testkit.Patience, func() bool { return len(b.List(0)) == 1 && locktest.Engine(others[0]).Queue.State().Subscribed }, "listed")
		next, d := b.Granted(w, h)
		took = append(took, d)
		require.NoError(t, next.Unlock(t.Context()))
		b.RequireFree(time.Second)
	}
	require.Less(t, locktest.Middle(took), locktest.CellLeisure/5)
}

// While others hold the lock, and will tell, a call that waits asks rarely, whatever its poll interval is.
func TestRedLockWaiterIsIdle(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	others := b.Others()
	h, err := b.Lock(b.Clients).Acquire(t.Context())
	require.NoError(t, err)
	w := b.Wait(t.Context(), others, relock.WithPollInterval(10*time.Millisecond))
	b.AwaitListed(1, others)
	before := locktest.CommandCount(t, b.Servers[0])
	time.Sleep(locktest.RedLease / 2)
	require.LessOrEqual(t, locktest.CommandCount(t, b.Servers[0])-before, int64(60), "a request has some 8 of them: every 10 ms there were 800")
	next, _ := b.Granted(w, h)
	require.NoError(t, next.Unlock(t.Context()))
}

// A holder that is gone tells nobody: who waits asks again when its lease ends.
func TestRedLockWaiterAsksWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	others := b.Others()
	var took []time.Duration
	for range 5 {
		const left = 250 * time.Millisecond
		for _, s := range b.Servers {
			s.Do(t, "SET", b.Prefix+"{k}", "relock/1|p|gone.1|c9|host|1|label|1", "PX", left.Milliseconds())
		}
		start := time.Now()
		w := b.Wait(t.Context(), others, relock.WithPollInterval(10*time.Millisecond))
		require.NoError(t, b.End(w))
		took = append(took, w.At.Sub(start)-left)
		require.NoError(t, w.Hold.Unlock(t.Context()))
		b.RequireFree(time.Second)
	}
	t.Logf("after the end of the lease: %v", took)
	require.Less(t, locktest.Middle(took), 200*time.Millisecond, "a period is %v", locktest.Target(b.Lock(others)).Settings.Period())
}

// Many that want the lock at once all get it, in turn.
func TestRedLockCrowd(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	inside := make(chan struct{}, 1)
	var done []<-chan error
	var all []*relock.Client
	for range 4 {
		clients := b.Others()
		all = append(all, clients...)
		l := b.Lock(clients, relock.WithBlock(), relock.WithPollInterval(20*time.Millisecond))
		for range 5 {
			done = append(done, testkit.Async(t, func() error {
				for range 4 {
					h, err := l.Acquire(t.Context())
					if err != nil {
						return err
					}
					select {
					case inside <- struct{}{}:
						<-inside
					default:
						return context.DeadlineExceeded // two at once
					}
					if err := h.Unlock(t.Context()); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	for _, one := range done {
		require.NoError(t, testkit.ResultWithin(t, one, 60*time.Second))
	}
	b.RequireNobodyListed(all)
	b.RequireFree(time.Second)
}
