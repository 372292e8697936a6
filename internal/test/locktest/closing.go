package locktest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// CloseLimit is how long Close may take, and each call that it ends.
const CloseLimit = 300 * time.Millisecond

// Closing is a client that is closed, and what it has then.
type Closing struct {
	S      *redistest.Server
	C      *relock.Client
	Pool   *redis.Pool   // the user's, else nil
	Block  chan struct{} // closed to let the user's dials go on
	once   sync.Once     // of that
	Blocks atomic.Bool   // whether the user's dials block
	Stuck  atomic.Int32  // the user's dials that do
	Taken  []redis.Conn  // out of that pool, by the test
}

// OwnClient makes a client with its own pool.
func (b *Closing) OwnClient(t *testing.T, opts ...relock.ClientOption) {
	var err error
	b.C, err = relock.NewClient(b.S.Network, b.S.Address, "", append(opts, relock.WithKeyPrefix("test:"))...)
	require.NoError(t, err)
}

// UserClient makes a client on the user's pool, whose dial takes a context or
// not.
func (b *Closing) UserClient(t *testing.T, knowsContext bool) {
	b.Pool = &redis.Pool{MaxIdle: 10}
	if knowsContext { // by its type only
		b.Pool.DialContext = func(context.Context) (redis.Conn, error) { return b.Dial() }
	} else {
		b.Pool.Dial = b.Dial
	}
	var err error
	b.C, err = relock.NewClientPool(b.Pool, relock.WithKeyPrefix("test:"))
	require.NoError(t, err)
}

// Dial connects for the user's pool. It blocks while Blocks is set.
func (b *Closing) Dial() (redis.Conn, error) {
	if b.Blocks.Load() {
		b.Stuck.Add(1)
		<-b.Block
	}
	return redis.Dial(b.S.Network, b.S.Address)
}

// Unblock lets the dials of the user's pool continue.
func (b *Closing) Unblock() { b.once.Do(func() { close(b.Block) }) }

// EndAtCleanup ends all calls that Begin has started before, also if the test
// fails.
func (b *Closing) EndAtCleanup(t *testing.T) {
	t.Cleanup(func() {
		b.Unblock()
		_ = b.C.Close() // what it says is checked elsewhere
	})
}

// Begin runs a call on a goroutine that the test waits for.
func Begin(t testing.TB, f func() error) *Timed {
	c := &Timed{TB: t}
	c.result = testkit.Async(t, func() error {
		defer func() { c.at = time.Now() }()
		return f()
	})
	return c
}

// RequireClosed checks that every call of a closed client fails.
func RequireClosed(t testing.TB, c *relock.Client) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, c.Close(), "closing again")
	require.ErrorIs(t, c.Ping(ctx), relock.ErrClosed)
	_, err := c.SetNEX(ctx, "raw", "v", time.Second)
	require.ErrorIs(t, err, relock.ErrClosed)
	_, err = c.Eval(ctx, relock.NewScript("return 1"), nil)
	require.ErrorIs(t, err, relock.ErrClosed)
	plain, reentrant := relock.NewRedisLock("k", c, relock.WithBlock()),
		relock.NewReentrantLock("k", c, relock.WithBlock())
	_, plainErr := plain.Acquire(ctx)
	_, reentrantErr := reentrant.TryAcquire(ctx)
	for _, err := range []error{
		plain.Lock(ctx), plain.TryLock(ctx), plain.Do(ctx, Nothing), plainErr,
		reentrant.Lock(ctx), reentrant.TryLock(ctx), reentrant.TryDo(ctx, Nothing), reentrantErr,
	} {
		require.ErrorIs(t, err, relock.ErrClosed)
		require.False(t, relock.IsRetryableErr(err))
	}
	require.NoError(t, plain.Validate(), "a handle stays valid")
}

// Timed is a call, and when it has ended.
type Timed struct {
	testing.TB
	result <-chan error
	at     time.Time
}

// End returns what came of it, and sees that it ended as long after an alarm as
// that was set to at most.
func (c *Timed) End(half *Alarm) error {
	c.Helper()
	err := testkit.ResultWithin(c, c.result, testkit.Patience)
	half.late.Check(c.at.Sub(half.Ring()), CloseLimit/2)
	return err
}
