package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// asideMost is how many tokens a grant sets aside, see lua/fence.lua. A grant
// within 63 µs of the one before sets fewer aside.
const asideMost = 63

// fencedKinds are the locks of one key.
var fencedKinds = []string{"RedisLock", "ReentrantLock", "RWLock", "RWLock, reading"}

// Tokens rise from hold to hold: over clients, over holds that were lost, over
// a server that has lost everything. Without the option there is no token, and
// no counter.
func TestTokensRise(t *testing.T) {
	t.Parallel()
	for _, name := range fencedKinds {
		for mode, opts := range map[string][]relock.LockOption{
			"unfair": nil, "fair": {relock.WithFair()}, "waiting": {relock.WithBlock()},
		} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s, a := locktest.OnOwn(t)
				clients, counter := []*relock.Client{a, locktest.Sibling(t, s, a)}, locktest.KeyOf(a, "fenced")+":f"
				lock := locktest.AllKinds[name]
				h := locktest.Take(t, lock("fenced", a, opts...).Acquire)
				require.Zero(t, h.Fence())
				require.NoError(t, h.Unlock(t.Context()))
				require.Equal(t, int64(0), s.Do(t, "EXISTS", counter))
				last, most := int64(0), int64(0)
				for n := range 12 {
					h := locktest.Take(t, lock("fenced", clients[n%2], append(opts, relock.WithFencing())...).Acquire)
					require.Greater(t, h.Fence(), last)
					last = h.Fence()
					aside := leaseOf(h).State().Aside
					most = max(most, aside)
					require.Equal(t, last+aside, locktest.Inspect(t, a, "fenced").Fence, "the last token that a holder can have")
					switch n % 4 {
					case 1:
						s.Do(t, "FLUSHALL")
						require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
					case 2:
						s.Do(t, "DEL", counter)
						fallthrough
					default:
						require.NoError(t, h.Unlock(t.Context()))
					}
					require.Equal(t, last, h.Fence())
				}
				want := int64(0)
				if name == "RedisLock" && mode != "fair" {
					want = asideMost
				}
				require.Equal(t, want, most, "the most tokens that a grant set aside")
			})
		}
	}
}

// Each of the readers has its own token, which it keeps when it goes on to
// write.
func TestTokensOfReaders(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	lockOf := func(owner string) locktest.RWLock {
		return locktest.OwnedRW(owner, relock.NewRWLock("fenced", c, relock.WithFencing()))
	}
	first, second := locktest.Take(t, lockOf("a").RAcquire), locktest.Take(t, lockOf("b").RAcquire)
	require.Positive(t, first.Fence())
	require.Greater(t, second.Fence(), first.Fence())
	require.NoError(t, first.Unlock(t.Context()))
	upgraded := locktest.Take(t, lockOf("b").Acquire)
	require.Equal(t, second.Fence(), upgraded.Fence())
	require.Equal(t, second.Fence(), locktest.Inspect(t, c, "fenced").Fence)
	require.NoError(t, upgraded.Unlock(t.Context()))
	require.NoError(t, second.Unlock(t.Context()))
	next := locktest.Take(t, lockOf("a").Acquire)
	require.Greater(t, next.Fence(), second.Fence())
	require.NoError(t, next.Unlock(t.Context()))
}

// A lock that is handed off in memory has the next token of its block. When the
// block is used up, Redis grants the lock.
func TestTokensOfLocalHandOffs(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 2)
	h := locktest.Take(t, relock.NewRedisLock(locktest.QueueKey, q.Clients[0], relock.WithFencing()).Acquire)
	w := q.WaitLocally(t.Context(), 0, relock.WithFencing())
	next := q.PassTo(h, w)
	l := leaseOf(next)
	require.Same(t, leaseOf(h), l)
	require.Equal(t, h.Fence()+1, next.Fence())

	l.Set(func(s *lease.State) { s.Aside = 0 })
	w = q.WaitLocally(t.Context(), 0, relock.WithFencing())
	q.Unlock(next)
	last := w.Granted()
	require.NotSame(t, l, leaseOf(last))
	require.Greater(t, last.Fence(), h.Fence()+asideMost)
	unfenced := q.WaitLocally(t.Context(), 0)
	other := q.PassTo(last, unfenced)
	require.NotSame(t, leaseOf(last), leaseOf(other))
	require.Zero(t, other.Fence())
	q.Unlock(other)
	q.RequireIdle()
}

// A reentrant lock that is transferred has the token that the transfer drew.
func TestTransferDrawsAToken(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.ReentrantUnfair, 2)
	h := q.Take(q.Clients[0], relock.WithFencing())
	w := q.WaitLocally(t.Context(), 0, relock.WithFencing())
	next := q.PassTo(h, w)
	require.Equal(t, 1, passes(next))
	require.Greater(t, next.Fence(), h.Fence())
	require.Equal(t, next.Fence(), locktest.Inspect(t, q.Clients[0], locktest.QueueKey).Fence)
	q.Unlock(next)
	q.RequireNothingLeft()
}

// A node that grants the lock later may learn the token of a RedLock in place
// of one that fails after its grant. If too few learn it, no node is kept for
// the minimum hold.
func TestRedLockTokenOfANodeThatFails(t *testing.T) {
	t.Parallel()
	type outcome struct {
		third faults.Action
		err   error
	}
	testkit.Each(t, map[string]outcome{
		"the third one comes later": {faults.Delay(time.Second), nil},
		"the third one fails":       {faults.DropRequest, relock.ErrQuorum},
	}, func(t *testing.T, _ string, tt outcome) {
		b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
		l := b.Patient(relock.WithFencing(), relock.WithMinHold(locktest.RedLease))
		b.Connect(b.Lock(b.Clients))
		// Two servers that draw in the same microsecond draw the same token,
		// and nobody has to learn it.
		b.Servers[0].Do(t, "SET", b.Prefix+"{k}"+script.CounterSuffix, time.Now().Add(time.Hour).UnixMicro())
		for _, p := range b.Proxies[:2] {
			p.On(faults.Script(script.FenceRaise.SHA), faults.Every, faults.ErrorLine("ERR no"))
		}
		b.Proxies[2].On(faults.Script(script.RedLockAcquire.Fenced.SHA), faults.Every, tt.third)
		err := l.TryLock(t.Context())
		require.ErrorIs(t, err, tt.err)
		if err != nil {
			b.RequireFree(locktest.RedLease / 2)
			return
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// reentrantKinds are the locks that an owner can take again.
var reentrantKinds = []string{"ReentrantLock", "RWLock"}

func lockOfMe(kind string, c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
	return locktest.Owned("me", locktest.AllKinds[kind](kind, c, opts...))
}

// A level cannot have what the hold does not have. It is refused, and the hold
// goes on as it was.
func TestLevelThatAsksForMoreThanTheHold(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		inner relock.LockOption
		says  string
	}{
		"a token":  {relock.WithFencing(), "WithFencing"},
		"replicas": {relock.WithReplicas(1, 50*time.Millisecond), "WithReplicas"},
	} {
		c := locktest.NewTestClient(t, redistest.Shared(t))
		for _, kind := range reentrantKinds {
			t.Run(what+"/"+kind, func(t *testing.T) {
				outer := locktest.Take(t, lockOfMe(kind, c).Acquire)
				for _, opts := range [][]relock.LockOption{{tt.inner}, {relock.WithBlock(), tt.inner}} {
					_, err := lockOfMe(kind, c, opts...).Acquire(t.Context())
					require.ErrorIs(t, err, relock.ErrInvalid)
					require.ErrorContains(t, err, tt.says)
				}
				require.NoError(t, outer.Err())
				require.NoError(t, outer.Unlock(t.Context()))
				require.ErrorIs(t, lockOfMe(kind, c).Unlock(t.Context()), relock.ErrNotHeld)
			})
		}
	}
}

// A level is granted immediately, in either mode.
func TestLevelOfTheOtherMode(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	fair := []relock.LockOption{relock.WithFair()}
	for _, kind := range reentrantKinds {
		for _, opts := range [][2][]relock.LockOption{{nil, fair}, {fair, nil}} {
			outer := locktest.Take(t, lockOfMe(kind, c, opts[0]...).Acquire)
			for _, acquire := range []func(context.Context) (relock.Hold, error){
				lockOfMe(kind, c, opts[1]...).TryAcquire, lockOfMe(kind, c, append(opts[1], relock.WithBlock())...).Acquire,
			} {
				require.NoError(t, locktest.Take(t, acquire).Unlock(t.Context()))
			}
			require.NoError(t, outer.Err())
			require.NoError(t, outer.Unlock(t.Context()))
		}
	}
}

// A level that asks for less has what the hold has: a token, and replicas
// without which no validity is extended.
func TestLevelThatAsksForLessThanTheHold(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	c := locktest.NewTestClient(t, r.Master)
	type levels struct{ outer, inner relock.Hold }
	all := map[string]levels{}
	for _, kind := range reentrantKinds {
		outer := locktest.Take(t, lockOfMe(kind, c, locktest.OneReplica, relock.WithFencing()).Acquire)
		inner := locktest.Take(t, lockOfMe(kind, c).Acquire)
		require.Positive(t, outer.Fence())
		require.Equal(t, outer.Fence(), inner.Fence())
		all[kind] = levels{outer, inner}
	}
	r.Disconnect()
	for kind, h := range all {
		until := h.outer.ValidUntil()
		_, err := lockOfMe(kind, c, relock.WithWatchdog(time.Minute)).Acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrReplicas, kind)
		require.ErrorIs(t, h.inner.Extend(t.Context(), time.Hour), relock.ErrReplicas, kind)
		require.Equal(t, until, h.outer.ValidUntil(), kind)
		require.NoError(t, h.inner.Unlock(t.Context()))
		require.NoError(t, h.outer.Unlock(t.Context()))
	}
}
