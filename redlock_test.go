package relock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestRedLockTakesTheNodesAndFreesThem(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 4)
	for _, n := range []int{3, 4} {
		b := newRedBench(t, servers[:n])
		l, other := b.lock(b.clients), b.lock(b.others())
		require.NoError(t, l.Validate())
		require.NoError(t, l.Lock(t.Context()))
		testkit.Eventually(t, time.Second, func() bool { return b.holding() == n }, "the slower ones too")
		require.ErrorIs(t, l.TryLock(t.Context()), ErrLockAcquiredByOthers)
		require.ErrorIs(t, other.Lock(t.Context()), ErrLockAcquiredByOthers)
		require.Equal(t, n, b.holding(), "a try that fails leaves nothing behind and takes nothing away")
		require.NoError(t, l.Unlock(t.Context()))
		b.requireFree(time.Second)
		require.ErrorIs(t, l.Unlock(t.Context()), ErrNotHeld)
		require.NoError(t, other.Do(t.Context(), func(ctx context.Context) error {
			h, ok := HoldFromContext(ctx, "k")
			require.True(t, ok)
			require.Equal(t, "k", h.Key())
			require.Zero(t, h.Fence())
			return h.Err()
		}))
		b.requireFree(time.Second)
	}
}

func TestRedLockMistakes(t *testing.T) {
	t.Parallel()
	var c []*Client
	for range 3 {
		c = append(c, unconnected(t))
	}
	long := unconnected(t, WithWatchdog(time.Minute))
	for name, tt := range map[string]struct {
		lock *RedLock
		want []string
	}{
		"no clients":          {NewRedLock("k", nil), []string{"clients: 0, fewer than 3", "NewClient"}},
		"two clients":         {NewRedLock("k", c[:2]), []string{"clients: 2, fewer than 3"}},
		"one twice":           {NewRedLock("k", []*Client{c[0], c[1], c[0]}), []string{"clients 0 and 2: are the same"}},
		"one is nil":          {NewRedLock("k", []*Client{c[0], nil, c[1], {}}), []string{"client 1: was not made", "client 3: was not made"}},
		"the first is nil":    {NewRedLock("k", []*Client{nil, c[0], c[1]}), []string{"client: was not made"}},
		"a bad key":           {NewRedLock("}", c), []string{"closing brace"}},
		"other options":       {NewRedLock("k", c, WithFair(), WithQueueLimit(1)), []string{"WithFair", "WithQueueLimit"}},
		"too long a lease":    {NewRedLock("k", c, WithExpiry(time.Minute)), []string{"lease of 1m0s: above the largest one allowed, 30s; see WithMaxLease"}},
		"too long a keep":     {NewRedLock("k", c, WithMinHold(time.Minute)), []string{"lease of 1m0s"}},
		"a default too long":  {NewRedLock("k", []*Client{long, c[0], c[1]}), []string{"lease of 1m0s"}},
		"a bad largest lease": {NewRedLock("k", c, WithMaxLease(time.Millisecond)), []string{"WithMaxLease: 1ms is below 10ms"}},
		"the zero value":      {&RedLock{}, []string{"constructor"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{tt.lock.Validate(), tt.lock.Lock(t.Context()), tt.lock.Unlock(t.Context()), tt.lock.Do(t.Context(), nothing)} {
				require.ErrorIs(t, err, ErrInvalid)
				for _, text := range tt.want {
					require.ErrorContains(t, err, text)
				}
			}
		})
	}
	require.NoError(t, NewRedLock("k", c, WithExpiry(time.Minute), WithMaxLease(time.Minute)).Validate())
	require.ErrorIs(t, NewRedisLock("k", c[0], WithMaxLease(time.Second)).Validate(), ErrInvalid)
	require.ErrorIs(t, NewReentrantLock("k", c[0], WithMaxLease(time.Second)).Validate(), ErrInvalid)
}

// Two clients of one server never make a quorum, however they reach it.
func TestRedLockTwiceOnOneServer(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 2)
	b := newRedBench(t, []*redistest.Server{servers[0], servers[1], servers[0]})
	servers[1].Pause(t) // so that the other two would be the quorum
	err := b.patient().Lock(t.Context())
	servers[1].Resume(t)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "clients 0 and 2: are of the same server")
	b.requireFree(time.Second)
}

func TestRedLockKeyConflict(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	b := newRedBench(t, servers)
	for _, s := range servers[:2] {
		s.Do(t, "SET", b.prefix+"{k}", "something else")
	}
	err := b.lock(b.clients, WithBlock()).Lock(t.Context())
	require.ErrorIs(t, err, ErrKeyConflict)
	require.ErrorIs(t, err, ErrQuorum)
}

func TestRedLockWaits(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	b := newRedBench(t, servers)
	h, err := b.lock(b.others()).Acquire(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, b.lock(b.clients, WithBlockTimeout(2*time.Second)).Lock(t.Context()), ErrLockAcquiredByOthers)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errMine)
	defer cancel()
	err = b.lock(b.clients, WithBlock()).Lock(ctx)
	for _, want := range []error{context.DeadlineExceeded, errMine, ErrLockAcquiredByOthers} {
		require.ErrorIs(t, err, want)
	}
	l := b.lock(b.clients, WithBlock())
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
	require.ErrorIs(t, l.Lock(l.quorum.Held().Context()), ErrInvalid, "would wait for itself")
	turned := append(slices.Clone(b.clients[1:]), b.clients[0])
	require.ErrorIs(t, b.lock(turned, WithBlock()).Lock(l.quorum.Held().Context()), ErrInvalid, "so would one with the clients in another order")
	require.NoError(t, l.Unlock(t.Context()))
	b.requireFree(testkit.Patience)
}

// A RedLock's hold is in the way of another one's call where it leaves no quorum of that one's clients.
func TestRedLockInTheWayOfOtherNodes(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	h, err := b.patient().Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(membersOf(h)) == 3 }, "all are there")
	more := []*Client{b.clients[0]}
	for range 2 {
		more = append(more, b.client(taught(t, redistest.Start(t))))
	}
	require.Nil(t, b.lock(more, WithBlock()).quorum.InTheWay(h.Context()), "two of three are left")
	require.NotNil(t, b.lock(append(more, b.clients[1]), WithBlock()).quorum.InTheWay(h.Context()), "two of four are no quorum")
	require.NoError(t, h.Unlock(t.Context()))
	b.requireFree(testkit.Patience)
}

// The context of a call that has ended ends the call, not what it has got.
func TestRedLockOutlivesItsCall(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	b := newRedBench(t, servers)
	ctx, cancel := context.WithCancel(t.Context())
	h, err := b.lock(b.clients).Acquire(ctx)
	require.NoError(t, err)
	cancel()
	time.Sleep(3 * redLease / 2)
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(ctx))
	b.requireFree(time.Second)
	require.ErrorIs(t, b.lock(b.clients).Lock(ctx), context.Canceled)

	for _, p := range b.proxies {
		p.Stall()
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.lock(b.clients).Lock(ctx), context.DeadlineExceeded)
	for _, p := range b.proxies {
		p.Resume()
	}
	b.requireFree(2 * redLease)
}

func TestRedLockLimitsOfAHold(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	b := newRedBench(t, servers)
	h, err := b.lock(b.clients, WithMaxHold(time.Second), WithLabel("nightly")).Acquire(t.Context())
	require.NoError(t, err)
	first := slices.IndexFunc(b.clients, func(c *Client) bool { return membersOf(h)[0].IsOf(c.engine) }) // has granted it; slower ones join later
	require.Contains(t, string(servers[first].Do(t, "GET", b.prefix+"{k}").([]byte)), "|nightly|")
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), ErrMaxHold)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrMaxHold)
	b.requireFree(time.Second)
	const keep = redLease * 9 / 10
	start := time.Now()
	require.NoError(t, b.lock(b.clients, WithMinHold(keep)).Do(t.Context(), nothing))
	require.ErrorIs(t, b.lock(b.others()).Lock(t.Context()), ErrLockAcquiredByOthers)
	b.requireFree(5 * time.Second)
	require.GreaterOrEqual(t, time.Since(start), keep)
}

// Clients that are closed are nodes that are away: the hold ends with the one that leaves no quorum.
func TestRedLockOfClosedClients(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	b := newRedBench(t, servers)
	l := b.lock(b.clients, WithBlock())
	require.NoError(t, l.Lock(t.Context()))
	testkit.Eventually(t, time.Second, func() bool { return b.holding() == 3 }, "all have it")
	ctx := l.quorum.Held().Context()
	require.NoError(t, b.clients[0].Close())
	time.Sleep(redLease)
	require.NoError(t, ctx.Err())
	second := b.lock(b.clients, WithBlock())
	waiting := testkit.Async(t, func() error { return second.Lock(t.Context()) })
	require.NoError(t, b.clients[2].Close())
	require.ErrorIs(t, testkit.EndedWithin(t, ctx, time.Second), ErrClosed)
	require.ErrorIs(t, testkit.ResultWithin(t, waiting, 5*time.Second), ErrClosed)
	require.ErrorIs(t, l.Unlock(t.Context()), ErrClosed)
	require.ErrorIs(t, l.Lock(t.Context()), ErrClosed)
	testkit.Eventually(t, redLease/2, func() bool { return servers[1].Do(t, "EXISTS", b.prefix+"{k}") == int64(0) }, "given back where the client is open")
}

func TestRedLockIsShared(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	b := newRedBench(t, servers)
	l := b.lock(b.clients, WithBlock(), WithPollInterval(2*time.Millisecond))
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
	b.requireFree(time.Second)
}
