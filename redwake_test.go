package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/testkit"
)

// The nodes that give the lock back tell a call that waits: polls would take it more than a second.
func TestRedLockWaiterIsWoken(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]LockOption{"plain": nil, "fenced": {WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRedBench(t, newRedServers(t, 3))
			others := b.others()
			var took []time.Duration
			for range 10 {
				h, err := b.lock(b.clients, opts...).Acquire(t.Context())
				require.NoError(t, err)
				w := b.waitPatiently(t.Context(), others, opts...)
				b.awaitListed(1, others)
				next, d := b.granted(w, h)
				took = append(took, d)
				require.NoError(t, next.Unlock(t.Context()))
				b.requireFree(time.Second)
			}
			b.requireNobodyListed(others)
			t.Logf("median %v, longest %v", middle(took), took[len(took)-1])
			require.Less(t, middle(took), cellLeisure/5)
		})
	}
}

// One node that tells is enough.
func TestRedLockIsWokenByOneNode(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	for _, deaf := range b.servers[1:] {
		deaf.Do(t, "ACL", "SETUSER", "default", "-subscribe")
	}
	var took []time.Duration
	for range 5 {
		h, err := b.lock(b.clients).Acquire(t.Context())
		require.NoError(t, err)
		testkit.Eventually(t, 5*time.Second, func() bool { return b.holding() == 3 }, "has all nodes")
		w := b.waitPatiently(t.Context(), others)
		testkit.Eventually(t, testkit.Patience, func() bool { return len(b.list(0)) == 1 && others[0].engine.Queue.State().Subscribed }, "listed")
		next, d := b.granted(w, h)
		took = append(took, d)
		require.NoError(t, next.Unlock(t.Context()))
		b.requireFree(time.Second)
	}
	require.Less(t, middle(took), cellLeisure/5)
}

// While others hold the lock, and will tell, a call that waits asks rarely, whatever its poll interval is.
func TestRedLockWaiterIsIdle(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	h, err := b.lock(b.clients).Acquire(t.Context())
	require.NoError(t, err)
	w := b.wait(t.Context(), others, WithPollInterval(10*time.Millisecond))
	b.awaitListed(1, others)
	before := commandCount(t, b.servers[0])
	time.Sleep(redLease / 2)
	require.LessOrEqual(t, commandCount(t, b.servers[0])-before, int64(60), "a request has some 8 of them: every 10 ms there were 800")
	next, _ := b.granted(w, h)
	require.NoError(t, next.Unlock(t.Context()))
}

// A holder that is gone tells nobody: who waits asks again when its lease ends.
func TestRedLockWaiterAsksWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	var took []time.Duration
	for range 5 {
		const left = 250 * time.Millisecond
		for _, s := range b.servers {
			s.Do(t, "SET", b.prefix+"{k}", "relock/1|p|gone.1|c9|host|1|label|1", "PX", left.Milliseconds())
		}
		start := time.Now()
		w := b.wait(t.Context(), others, WithPollInterval(10*time.Millisecond))
		require.NoError(t, b.end(w))
		took = append(took, w.at.Sub(start)-left)
		require.NoError(t, w.hold.Unlock(t.Context()))
		b.requireFree(time.Second)
	}
	t.Logf("after the end of the lease: %v", took)
	require.Less(t, middle(took), 200*time.Millisecond, "a period is %v", b.lock(others).target.Settings.Period())
}

// Many that want the lock at once all get it, in turn.
func TestRedLockCrowd(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	inside := make(chan struct{}, 1)
	var done []<-chan error
	var all []*Client
	for range 4 {
		clients := b.others()
		all = append(all, clients...)
		l := b.lock(clients, WithBlock(), WithPollInterval(20*time.Millisecond))
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
	b.requireNobodyListed(all)
	b.requireFree(time.Second)
}
