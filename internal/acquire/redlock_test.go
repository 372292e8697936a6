package acquire_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestRedLockTakesTheNodesAndFreesThem(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 4)
	for _, n := range []int{3, 4} {
		b := locktest.NewRedBench(t, servers[:n])
		l, other := b.Lock(b.Clients), b.Lock(b.Others())
		require.NoError(t, l.Validate())
		require.NoError(t, l.Lock(t.Context()))
		testkit.Eventually(t, time.Second, func() bool { return b.Holding() == n }, "the slower ones too")
		require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.ErrorIs(t, other.Lock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.Equal(t, n, b.Holding(), "a try that fails leaves nothing behind and takes nothing away")
		require.NoError(t, l.Unlock(t.Context()))
		b.RequireFree(time.Second)
		require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
		require.NoError(t, other.Do(t.Context(), func(ctx context.Context) error {
			h, ok := relock.HoldFromContext(ctx, "k")
			require.True(t, ok)
			require.Equal(t, "k", h.Key())
			require.Zero(t, h.Fence())
			return h.Err()
		}))
		b.RequireFree(time.Second)
	}
}

func TestRedLockMistakes(t *testing.T) {
	t.Parallel()
	var c []*relock.Client
	for range 3 {
		c = append(c, locktest.Unconnected(t))
	}
	long := locktest.Unconnected(t, relock.WithWatchdog(time.Minute))
	for name, tt := range map[string]struct {
		lock *relock.RedLock
		want []string
	}{
		"no clients":          {relock.NewRedLock("k", nil), []string{"clients: 0, fewer than 3", "NewClient"}},
		"two clients":         {relock.NewRedLock("k", c[:2]), []string{"clients: 2, fewer than 3"}},
		"one twice":           {relock.NewRedLock("k", []*relock.Client{c[0], c[1], c[0]}), []string{"clients 0 and 2: are the same"}},
		"one is nil":          {relock.NewRedLock("k", []*relock.Client{c[0], nil, c[1], {}}), []string{"client 1: was not made", "client 3: was not made"}},
		"the first is nil":    {relock.NewRedLock("k", []*relock.Client{nil, c[0], c[1]}), []string{"client: was not made"}},
		"a bad key":           {relock.NewRedLock("}", c), []string{"closing brace"}},
		"other options":       {relock.NewRedLock("k", c, relock.WithFair(), relock.WithOwner("x"), relock.WithQueueLimit(1)), []string{"WithFair", "WithOwner", "WithQueueLimit"}},
		"too long a lease":    {relock.NewRedLock("k", c, relock.WithExpiry(time.Minute)), []string{"lease of 1m0s: above the largest one allowed, 30s; see WithMaxLease"}},
		"too long a keep":     {relock.NewRedLock("k", c, relock.WithMinHold(time.Minute)), []string{"lease of 1m0s"}},
		"a default too long":  {relock.NewRedLock("k", []*relock.Client{long, c[0], c[1]}), []string{"lease of 1m0s"}},
		"a bad largest lease": {relock.NewRedLock("k", c, relock.WithMaxLease(time.Millisecond)), []string{"WithMaxLease: 1ms is below 10ms"}},
		"the zero value":      {&relock.RedLock{}, []string{"constructor"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{tt.lock.Validate(), tt.lock.Lock(t.Context()), tt.lock.Unlock(t.Context()), tt.lock.Do(t.Context(), locktest.Nothing)} {
				require.ErrorIs(t, err, relock.ErrInvalid)
				for _, text := range tt.want {
					require.ErrorContains(t, err, text)
				}
			}
		})
	}
	require.NoError(t, relock.NewRedLock("k", c, relock.WithExpiry(time.Minute), relock.WithMaxLease(time.Minute)).Validate())
	require.ErrorIs(t, relock.NewRedisLock("k", c[0], relock.WithMaxLease(time.Second)).Validate(), relock.ErrInvalid)
	require.ErrorIs(t, relock.NewReentrantLock("k", c[0], relock.WithMaxLease(time.Second)).Validate(), relock.ErrInvalid)
}

// Two clients of one server never make a quorum, however they reach it.
func TestRedLockTwiceOnOneServer(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 2)
	b := locktest.NewRedBench(t, []*redistest.Server{servers[0], servers[1], servers[0]})
	servers[1].Pause(t) // so that the other two would be the quorum
	err := b.Patient().Lock(t.Context())
	servers[1].Resume(t)
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "clients 0 and 2: are of the same server")
	b.RequireFree(time.Second)
}

func TestRedLockKeyConflict(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	b := locktest.NewRedBench(t, servers)
	for _, s := range servers[:2] {
		s.Do(t, "SET", b.Prefix+"{k}", "something else")
	}
	err := b.Lock(b.Clients, relock.WithBlock()).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrKeyConflict)
	require.ErrorIs(t, err, relock.ErrQuorum)
}

func TestRedLockWaits(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	b := locktest.NewRedBench(t, servers)
	h, err := b.Lock(b.Others()).Acquire(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, b.Lock(b.Clients, relock.WithBlockTimeout(2*time.Second)).Lock(t.Context()), relock.ErrLockAcquiredByOthers)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, locktest.ErrMine)
	defer cancel()
	err = b.Lock(b.Clients, relock.WithBlock()).Lock(ctx)
	for _, want := range []error{context.DeadlineExceeded, locktest.ErrMine, relock.ErrLockAcquiredByOthers} {
		require.ErrorIs(t, err, want)
	}
	l := b.Lock(b.Clients, relock.WithBlock())
	waiting := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	select {
	case err := <-waiting:
		require.FailNow(t, "did not wait", "%v", err)
	case <-time.After(120 * time.Millisecond):
	}
	start := time.Now()
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waiting, 5*time.Second))
	t.Logf("granted %v after the Unlock", time.Since(start))
	require.ErrorIs(t, l.Lock(locktest.Quorum(l).Held().Context()), relock.ErrInvalid, "would wait for itself")
	turned := append(slices.Clone(b.Clients[1:]), b.Clients[0])
	require.ErrorIs(t, b.Lock(turned, relock.WithBlock()).Lock(locktest.Quorum(l).Held().Context()), relock.ErrInvalid, "so would one with the clients in another order")
	require.NoError(t, l.Unlock(t.Context()))
	b.RequireFree(testkit.Patience)
}

// A RedLock's hold is in the way of another one's call where it leaves no quorum of that one's clients.
func TestRedLockInTheWayOfOtherNodes(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	h, err := b.Patient().Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(locktest.MembersOf(h)) == 3 }, "all are there")
	more := []*relock.Client{b.Clients[0]}
	for range 2 {
		more = append(more, b.Client(locktest.Taught(t, redistest.Start(t))))
	}
	require.Nil(t, locktest.Quorum(b.Lock(more, relock.WithBlock())).InTheWay(h.Context()), "two of three are left")
	require.NotNil(t, locktest.Quorum(b.Lock(append(more, b.Clients[1]), relock.WithBlock())).InTheWay(h.Context()), "two of four are no quorum")
	require.NoError(t, h.Unlock(t.Context()))
	b.RequireFree(testkit.Patience)
}

// The context of a call that has ended ends the call, not what it has got.
func TestRedLockOutlivesItsCall(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	b := locktest.NewRedBench(t, servers)
	ctx, cancel := context.WithCancel(t.Context())
	h, err := b.Lock(b.Clients).Acquire(ctx)
	require.NoError(t, err)
	cancel()
	time.Sleep(3 * locktest.RedLease / 2)
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(ctx))
	b.RequireFree(time.Second)
	require.ErrorIs(t, b.Lock(b.Clients).Lock(ctx), context.Canceled)

	for _, p := range b.Proxies {
		p.Stall()
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Lock(b.Clients).Lock(ctx), context.DeadlineExceeded)
	for _, p := range b.Proxies {
		p.Resume()
	}
	b.RequireFree(2 * locktest.RedLease)
}

func TestRedLockLimitsOfAHold(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	b := locktest.NewRedBench(t, servers)
	h, err := b.Lock(b.Clients, relock.WithMaxHold(time.Second), relock.WithLabel("nightly")).Acquire(t.Context())
	require.NoError(t, err)
	first := slices.IndexFunc(b.Clients, func(c *relock.Client) bool { return locktest.MembersOf(h)[0].IsOf(locktest.Engine(c)) }) // has granted it; slower ones join later
	require.Contains(t, string(servers[first].Do(t, "GET", b.Prefix+"{k}").([]byte)), "|nightly|")
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), relock.ErrMaxHold)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrMaxHold)
	b.RequireFree(time.Second)
	const keep = locktest.RedLease * 9 / 10
	start := time.Now()
	require.NoError(t, b.Lock(b.Clients, relock.WithMinHold(keep)).Do(t.Context(), locktest.Nothing))
	require.ErrorIs(t, b.Lock(b.Others()).Lock(t.Context()), relock.ErrLockAcquiredByOthers)
	b.RequireFree(5 * time.Second)
	require.GreaterOrEqual(t, time.Since(start), keep)
}

// Clients that are closed are nodes that are away: the hold ends with the one that leaves no quorum.
func TestRedLockOfClosedClients(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	b := locktest.NewRedBench(t, servers)
	l := b.Lock(b.Clients, relock.WithBlock())
	require.NoError(t, l.Lock(t.Context()))
	testkit.Eventually(t, time.Second, func() bool { return b.Holding() == 3 }, "all have it")
	ctx := locktest.Quorum(l).Held().Context()
	require.NoError(t, b.Clients[0].Close())
	time.Sleep(locktest.RedLease)
	require.NoError(t, ctx.Err())
	second := b.Lock(b.Clients, relock.WithBlock())
	waiting := testkit.Async(t, func() error { return second.Lock(t.Context()) })
	require.NoError(t, b.Clients[2].Close())
	require.ErrorIs(t, testkit.EndedWithin(t, ctx, time.Second), relock.ErrClosed)
	require.ErrorIs(t, testkit.ResultWithin(t, waiting, 5*time.Second), relock.ErrClosed)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrClosed)
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrClosed)
	testkit.Eventually(t, locktest.RedLease/2, func() bool { return servers[1].Do(t, "EXISTS", b.Prefix+"{k}") == int64(0) }, "given back where the client is open")
}

func TestRedLockIsShared(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	b := locktest.NewRedBench(t, servers)
	l := b.Lock(b.Clients, relock.WithBlock(), relock.WithPollInterval(2*time.Millisecond))
	counter, done := 0, make(chan error, 6)
	for range cap(done) {
		testkit.Async(t, func() error {
			var err error
			for range 10 {
				err = errors.Join(err, l.Do(t.Context(), func(context.Context) error { counter++; return nil }))
			}
			done <- err
			return nil
		})
	}
	for range cap(done) {
		require.NoError(t, testkit.ResultWithin(t, done, testkit.Patience))
	}
	require.Equal(t, 60, counter)
	b.RequireFree(time.Second)
}
