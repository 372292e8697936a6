package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// During a storm of calls that are cancelled soon, some calls get a fair lock
// too. Other holds of the Locker are renewed, and no remainder delays the next
// call.
func TestStormOfCancelledCalls(t *testing.T) {
	c := newCluster(t, 1)
	var unfair, fair storm
	unfair.run(t, c)
	fair.run(t, c, etcdlock.WithFair())
	t.Logf("unfair: %d of the calls had the lock, the next one after %v", unfair.granted.Load(), unfair.next)
	t.Logf("fair: %d of the calls had the lock, the next one after %v", fair.granted.Load(), fair.next)
	fair.watch.Check(fair.next, 100*time.Millisecond+4*unfair.next)
	if unfair.kept { // else the machine is too busy
		require.True(t, fair.kept, "the hold of another name is lost")
		require.Greater(t, 10*fair.granted.Load(), unfair.granted.Load())
	}
}

type storm struct {
	granted atomic.Int64  // how many of the calls had the lock
	next    time.Duration // that a Lock after the storm took
	kept    bool          // a hold of another name
	watch   *testkit.Stopwatch
}

func (s *storm) run(t *testing.T, c *cluster, opts ...etcdlock.Option) {
	t.Helper()
	l := newLocker(t, c.client(t),
		append(opts, etcdlock.WithTTL(2*time.Second), etcdlock.WithPrefix(fmt.Sprint(isFair(opts))))...)
	ninth := lock(t, l, "ninth")
	s.cancelledCalls(t, l, 700*time.Millisecond)
	s.watch = testkit.NewStopwatch(t)
	began := time.Now()
	hold := lock(t, l, "key0")
	s.next, s.kept = time.Since(began), ninth.Err() == nil
	unlock(t, hold)
}

// cancelledCalls are made by 64 goroutines for 8 locks, for up to 20 ms each.
func (s *storm) cancelledCalls(t *testing.T, l *etcdlock.Locker, d time.Duration) {
	t.Helper()
	var group sync.WaitGroup
	for end, n := time.Now().Add(d), 0; n < 64; n++ {
		group.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(context.Background(), rand.N(20*time.Millisecond))
				hold, err := l.Lock(ctx, fmt.Sprint("key", n%8))
				if err == nil {
					s.granted.Add(1)
					_ = hold.Unlock(ctx)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Lock: %v", err)
				}
				cancel()
			}
		})
	}
	group.Wait()
}

// Of the fair calls for one lock, only one is on its way to the queue. When it
// was cancelled, the others wait until it is known what has become of it.
func TestCancelledCallsAreFewAtTheServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	f := newFaults()
	l := newLocker(t, c.faulty(t, f), etcdlock.WithFair())
	unlock(t, lock(t, l, "warm"))
	sent := f.count("Txn")
	late := f.on("Txn", 1, answerLate)
	answer := sync.OnceFunc(func() { close(late.held) })
	defer answer()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var calls []<-chan result
	for range 20 {
		calls = append(calls, waiter(ctx, l, "key"))
	}
	soon(t, "one is sent", func() bool { return f.count("Txn") > sent })
	next := waiter(limited(t), l, "key") // has more time than the 3 s of the request
	cancel()
	for _, call := range calls {
		require.ErrorIs(t, await(t, call).err, context.Canceled)
	}
	require.Equal(t, sent+1, f.count("Txn"))
	answer()
	r := await(t, next)
	require.NoError(t, r.err)
	require.Equal(t, sent+3, f.count("Txn"), "its removal, and the next one")
	unlock(t, r.hold)
	require.True(t, errors.Is(r.hold.Err(), relock.ErrNotHeld))
	noKeys(t, c.client(t), "key")
}
