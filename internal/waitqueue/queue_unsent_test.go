package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A server that goes away after it has executed a request: the second attempt finds nobody and is not sent, but the first has
// taken the lock all the same. It is given back when the server is there again, and does not stay until its lease ends.
func TestServerGoesAwayBeforeItAnswers(t *testing.T) {
	t.Parallel()
	locks := map[string]func(*relock.Client) locktest.AnyLock{"MultiLock": func(c *relock.Client) locktest.AnyLock {
		return relock.NewMultiLock([]string{locktest.QueueKey, "another"}, c, relock.WithBlock(), relock.WithExpiry(20*time.Second))
	}}
	for _, m := range append(locktest.QueueModes(), locktest.QueueMode{Kind: "RWLock", Fair: false}, locktest.QueueMode{Kind: "RWLock", Fair: true}) {
		locks[m.Title()] = func(c *relock.Client) locktest.AnyLock { return m.Lock(c, relock.WithExpiry(20*time.Second)) }
	}
	var cells []locktest.CellRun
	for name, lock := range locks {
		cells = append(cells,
			locktest.CellRun{Name: name + ", one attempt", Run: func(t testing.TB) { serverGoesAway(t, lock, locktest.AnyLock.TryAcquire) }},
			locktest.CellRun{Name: name + ", waiting", Run: func(t testing.TB) { serverGoesAway(t, lock, locktest.AnyLock.Acquire) }})
	}
	locktest.Together(t, cells)
}

func serverGoesAway(t testing.TB, lock func(*relock.Client) locktest.AnyLock, take func(locktest.AnyLock, context.Context) (relock.Hold, error)) {
	s := locktest.NewFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	executed := proxy.On(func([]string) bool { return true }, 1, faults.DropAnswer)
	go func() {
		_, err := take(lock(c), ctx)
		ended <- err
	}()
	select {
	case <-executed:
	case err := <-ended:
		require.NoError(t, err, "before it has sent anything")
	}
	key := locktest.KeyOf(c, locktest.QueueKey)
	testkit.Eventually(t, time.Second, func() bool { return s.Do(t, "EXISTS", key) == int64(1) }, "it is taken")
	proxy.Refuse()
	defer time.AfterFunc(500*time.Millisecond, cancel).Stop() // time for the second attempt
	require.Error(t, <-ended)
	proxy.Accept()
	testkit.Eventually(t, 4*time.Second, func() bool { return s.Do(t, "EXISTS", key) == int64(0) }, "it is given back")
}
