package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A server that goes away after it has executed a request: the second attempt finds nobody and is not sent, but the first has
// taken the lock all the same. It is given back when the server is there again, and does not stay until its lease ends.
func TestServerGoesAwayBeforeItAnswers(t *testing.T) {
	t.Parallel()
	locks := map[string]func(*Client) anyLock{"MultiLock": func(c *Client) anyLock {
		return NewMultiLock([]string{queueKey, "another"}, c, WithBlock(), WithExpiry(20*time.Second))
	}}
	for _, m := range append(queueModes(), queueMode{"RWLock", false}, queueMode{"RWLock", true}) {
		locks[m.name()] = func(c *Client) anyLock { return m.lock(c, WithExpiry(20*time.Second)) }
	}
	var cells []cellRun
	for name, lock := range locks {
		cells = append(cells,
			cellRun{name + ", one attempt", func(t testing.TB) { serverGoesAway(t, lock, anyLock.TryAcquire) }},
			cellRun{name + ", waiting", func(t testing.TB) { serverGoesAway(t, lock, anyLock.Acquire) }})
	}
	together(t, cells)
}

func serverGoesAway(t testing.TB, lock func(*Client) anyLock, take func(anyLock, context.Context) (Hold, error)) {
	s := newFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
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
	key := keyOf(c, queueKey)
	testkit.Eventually(t, time.Second, func() bool { return s.Do(t, "EXISTS", key) == int64(1) }, "it is taken")
	proxy.Refuse()
	defer time.AfterFunc(500*time.Millisecond, cancel).Stop() // time for the second attempt
	require.Error(t, <-ended)
	proxy.Accept()
	testkit.Eventually(t, 4*time.Second, func() bool { return s.Do(t, "EXISTS", key) == int64(0) }, "it is given back")
}
