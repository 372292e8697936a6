package redlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestRedLockTakesTheNodesAndFreesThem(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 4} {
		b := redOn(t, n)
		l, other := b.Patient(), locktest.NewPatientRedLock("k", b.Others())
		require.NoError(t, l.Validate())
		require.NoError(t, l.Lock(t.Context()))
		b.RequireHeldBy(n) // the slower ones too
		require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.ErrorIs(t, other.Lock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.Equal(t, n, b.HeldNodes(), "a try that fails leaves nothing behind and takes nothing away")
		require.NoError(t, l.Unlock(t.Context()))
		b.RequireFree(time.Second)
		require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
		require.NoError(t, other.Do(t.Context(), locktest.Nothing))
		b.RequireFree(time.Second)
	}
}

func TestRedLockMistakes(t *testing.T) {
	t.Parallel()
	c := []*relock.Client{locktest.Unconnected(t), locktest.Unconnected(t), locktest.Unconnected(t)}
	long := locktest.Unconnected(t, relock.WithWatchdog(time.Minute))
	for name, tt := range map[string]struct {
		lock *relock.RedLock
		want []string
	}{
		"no clients":  {relock.NewRedLock("k", nil), []string{"clients: 0 are below 3", "client: is nil"}},
		"two clients": {relock.NewRedLock("k", c[:2]), []string{"clients: 2 are below 3"}},
		"one twice": {
			relock.NewRedLock("k", []*relock.Client{c[0], c[1], c[0]}), []string{"clients 0 and 2: are the same"},
		},
		"one is nil": {relock.NewRedLock("k", []*relock.Client{c[0], nil, c[1], {}}), []string{
			"client 1: is nil", "client 3: was not made",
		}},
		"the first is nil": {relock.NewRedLock("k", []*relock.Client{nil, c[0], c[1]}), []string{"client: is nil"}},
		"a bad key":        {relock.NewRedLock("}", c), []string{"closing brace"}},
		"other options": {
			relock.NewRedLock("k", c, relock.WithFair(), relock.WithQueueLimit(1)), []string{"WithFair", "WithQueueLimit"},
		},
		"too long a lease": {relock.NewRedLock("k", c, relock.WithExpiry(time.Minute)), []string{
			"lease: 1m0s is above the largest allowed, 30s; see WithMaxLease",
		}},
		"too long a minimum": {relock.NewRedLock("k", c, relock.WithMinHold(time.Minute)), []string{"lease: 1m0s is above"}},
		"a default too long": {relock.NewRedLock("k", []*relock.Client{long, c[0], c[1]}), []string{"lease: 1m0s is above"}},
		"a bad largest lease": {
			relock.NewRedLock("k", c, relock.WithMaxLease(time.Millisecond)), []string{"WithMaxLease: 1ms is below 10ms"},
		},
		"the zero value": {&relock.RedLock{}, []string{"constructor"}},
	} {
		t.Run(name, func(t *testing.T) { locktest.RequireInvalid(t, tt.lock, tt.want) })
	}
	require.NoError(t,
		relock.NewRedLock("k", c, relock.WithExpiry(time.Minute), relock.WithMaxLease(time.Minute)).Validate())
	require.ErrorIs(t, relock.NewRedisLock("k", c[0], relock.WithMaxLease(time.Second)).Validate(), relock.ErrInvalid)
	require.ErrorIs(t, relock.NewReentrantLock("k", c[0], relock.WithMaxLease(time.Second)).Validate(), relock.ErrInvalid)
}

// Two clients of one server never make a quorum, however they reach it.
func TestRedLockTwiceOnOneServer(t *testing.T) {
	b := newRed(t, 2)
	twice := locktest.NewRedBench(t, []*redistest.Server{b.Servers[0], b.Servers[1], b.Servers[0]})
	twice.Proxies[1].Stall() // so that the other two would be the quorum
	err := twice.Patient().Lock(t.Context())
	twice.Proxies[1].Resume()
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "clients 0 and 2: are of the same server")
	twice.RequireFree(time.Second)
}

// A RedLock's hold is in the way of another call if it leaves no quorum of that
// call's clients.
func TestRedLockInTheWayOfOtherNodes(t *testing.T) {
	b := newRed(t, 3)
	h := locktest.Take(t, b.Patient().Acquire)
	awaitMembers(t, h, 3)
	more := []*relock.Client{b.Clients[0], b.Client(nodes[3]), b.Client(nodes[4])}
	require.Nil(t, locktest.NewPatientRedLock("k", more).Quorum.InTheWay(h.Context()), "two of three are left")
	turned := append(slices.Clone(b.Clients[1:]), b.Clients[0])
	require.ErrorIs(t, b.Lock(turned, relock.WithBlock()).Lock(h.Context()), relock.ErrInvalid,
		"would wait for itself, also with the clients in another order")
	require.NotNil(t, locktest.NewPatientRedLock("k", append(more, b.Clients[1])).Quorum.InTheWay(h.Context()),
		"two of four are no quorum")
	require.NoError(t, h.Unlock(t.Context()))
	b.RequireFree(testkit.Patience)
}

// A call whose context is cancelled while it asks leaves nothing behind.
func TestRedLockCallThatIsCancelled(t *testing.T) {
	b := newRed(t, 3)
	for _, p := range b.Proxies {
		p.Stall()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Patient().Lock(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, b.Patient().Lock(ctx), context.DeadlineExceeded, "over before it asks")
	for _, p := range b.Proxies {
		p.Resume()
	}
	b.RequireFree(2 * locktest.RedLease)
}

func TestRedLockLimitsOfAHold(t *testing.T) {
	b := newRed(t, 3)
	h := locktest.Take(t, b.Patient(relock.WithMaxHold(3*time.Second), relock.WithLabel("nightly")).Acquire)
	// slower ones join later
	first := slices.IndexFunc(b.Clients, func(c *relock.Client) bool { return locktest.Level(h).IsOf(locktest.Engine(c)) })
	require.Contains(t, string(b.Servers[first].Do(t, "GET", b.Prefix+"{k}").([]byte)), "|nightly|")
	locktest.RequireEnds(t, h, relock.ErrMaxHold)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrMaxHold)
	b.RequireFree(time.Second)

	const minimum = locktest.RedLease * 9 / 10
	start := time.Now()
	require.NoError(t, b.Patient(relock.WithMinHold(minimum)).Do(t.Context(), locktest.Nothing))
	err := locktest.NewPatientRedLock("k", b.Others()).Lock(t.Context())
	if time.Since(start) < minimum { // else nothing is promised
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
	}
	b.RequireFree(5 * time.Second)
	require.GreaterOrEqual(t, time.Since(start), minimum)
}

// A closed client is a node that is away: the hold ends with the client that
// leaves no quorum.
func TestRedLockOfClosedClients(t *testing.T) {
	b := newRed(t, 3)
	l := b.Patient(relock.WithBlock())
	h, _, err := l.Quorum.Take(t.Context(), true, true)
	require.NoError(t, err)
	of := func(c *relock.Client) bool { return h.IsOf(locktest.Engine(c)) }
	testkit.Eventually(t, testkit.Patience,
		func() bool { return of(b.Clients[0]) && of(b.Clients[1]) && of(b.Clients[2]) }, "all nodes grant it")
	require.NoError(t, b.Clients[0].Close())
	awaitRenewed(t, h, time.Now())
	require.NoError(t, h.Context().Err())
	second := b.Patient(relock.WithBlock())
	waiting := testkit.Async(t, func() error { return second.Lock(t.Context()) })
	require.NoError(t, b.Clients[2].Close())
	watch := testkit.NewStopwatch(t)
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrClosed)
	watch.Within(time.Second)
	require.ErrorIs(t, testkit.ResultWithin(t, waiting, testkit.Patience), relock.ErrClosed)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrClosed)
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrClosed)
	free := func() bool { return b.Servers[1].Do(t, "EXISTS", b.Prefix+"{k}") == int64(0) }
	locktest.EventuallyWithin(t, locktest.RedLease/2, free, "released by the client that is open")
}

// A hold that is ended by force, on a quorum, ends immediately, for that
// reason.
func TestRedLockEndedByForce(t *testing.T) {
	b := newRed(t, 3)
	others := b.Others()
	for _, c := range others {
		locktest.Patient(c)
	}
	h := locktest.Take(t, locktest.NewPatientRedLock("k", others).Acquire)
	b.RequireHeldBy(3)
	for _, c := range b.Clients[:2] {
		require.NoError(t, c.ForceUnlock(t.Context(), "k", "maintenance"))
	}
	locktest.RenewNow(h)
	err := testkit.EndedWithin(t, h.Context(), testkit.Patience)
	locktest.RequireIs(t, err, relock.ErrLockLost, relock.ErrForced)
	require.ErrorContains(t, err, "maintenance")
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	b.RequireFree(time.Second)
}

// Tokens rise from quorum to quorum, also if one node's clock is ahead and it
// is not in the next quorum.
func TestRedLockFencing(t *testing.T) {
	b := newRed(t, 5)
	l := b.Patient(relock.WithFencing())
	b.Connect(l)
	b.Servers[0].Do(t, "SET", b.Prefix+"{k}"+script.CounterSuffix, time.Now().Add(time.Hour).UnixMicro())
	var last int64
	for n, away := range [][2]int{{3, 4}, {0, 1}, {1, 2}, {0, 4}, {0, 2}} {
		for _, i := range away {
			b.Proxies[i].Refuse()
		}
		h := locktest.Take(t, l.TryAcquire)
		require.Greater(t, h.Fence(), last, "%d", n)
		last = h.Fence()
		require.NoError(t, h.Unlock(t.Context()))
		for _, i := range away {
			b.Proxies[i].Accept()
		}
		b.RequireFree(2 * locktest.RedLease)
	}
	require.Greater(t, last, time.Now().Add(30*time.Minute).UnixMicro(), "the test does not show what it is for")
	for _, p := range b.Proxies[:3] {
		p.Refuse()
	}
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrQuorum)
}
