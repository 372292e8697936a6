package driver_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// stuckClose is a connection of the user's whose Close blocks, once it has subscribed.
type stuckClose struct {
	redis.ConnWithTimeout
	subscribed    atomic.Bool
	called, freed chan struct{}
	once          *sync.Once
}

func (c *stuckClose) Send(command string, args ...any) error {
	if command == "SUBSCRIBE" {
		c.subscribed.Store(true)
	}
	return c.ConnWithTimeout.Send(command, args...)
}

func (c *stuckClose) Close() error {
	if c.subscribed.Load() {
		c.once.Do(func() { close(c.called) })
		<-c.freed
	}
	return c.ConnWithTimeout.Close()
}

// A subscription that is silent is cut. A Close of the user's that blocks then keeps up neither the client's calls, which learn by polls what
// they are not told, nor its own Close.
func TestCloseOfAConnectionThatBlocks(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("SUBSCRIBE"), 1, faults.ThenSilent)
	called, freed, once := make(chan struct{}), make(chan struct{}), &sync.Once{}
	pool := &redis.Pool{MaxIdle: 3, Dial: func() (redis.Conn, error) {
		conn, err := redis.Dial(proxy.Network, proxy.Address)
		if err != nil {
			return nil, err
		}
		return &stuckClose{ConnWithTimeout: conn.(redis.ConnWithTimeout), called: called, freed: freed, once: once}, nil
	}}
	defer func() { require.NoError(t, pool.Close()) }()
	other := locktest.NewTestClient(t, s)
	c, err := relock.NewClientPool(pool, relock.WithKeyPrefix(locktest.Prefix(other)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	defer close(freed)
	theirs := relock.NewRedisLock("theirs", other)
	require.NoError(t, theirs.Lock(t.Context()))
	waiting := testkit.Async(t, func() error { return relock.NewRedisLock("theirs", c, relock.WithBlock()).Lock(t.Context()) })
	_, ok := testkit.Await(called, testkit.Patience)
	require.True(t, ok, "the subscription is not cut")
	more := testkit.Async(t, func() error {
		return relock.NewRedisLock("theirs", c, relock.WithBlockTimeout(50*time.Millisecond)).Lock(t.Context())
	})
	require.ErrorIs(t, testkit.ResultWithin(t, more, testkit.Patience), relock.ErrLockAcquiredByOthers)
	require.NoError(t, theirs.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, c.Close), testkit.Patience))
}
