package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// asideMost is how many tokens a grant sets aside, see lua/fence.lua.
const asideMost = 63

// fencedKinds are the locks of one key.
var fencedKinds = []string{"RedisLock", "ReentrantLock", "RWLock", "RWLock, reading"}

// Tokens rise from hold to hold: over clients, over holds that were lost, over
// a server that has lost everything. Without the option there is no token, and
// no counter.
func TestTokensRise(t *testing.T) {
	t.Parallel()
	for _, name := range fencedKinds {
		for mode, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}, "waiting": {relock.WithBlock()}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				a := locktest.NewTestClient(t, s)
				clients, counter := []*relock.Client{a, locktest.Sibling(t, s, a)}, locktest.KeyOf(a, "fenced")+":f"
				lock := locktest.AllKinds[name]
				h := acquired(t, lock("fenced", a, opts...))
				require.Zero(t, h.Fence())
				require.NoError(t, h.Unlock(t.Context()))
				require.Equal(t, int64(0), s.Do(t, "EXISTS", counter))
				last := int64(0)
				for n := range 12 {
					h := acquired(t, lock("fenced", clients[n%2], append(opts, relock.WithFencing())...))
					require.Greater(t, h.Fence(), last)
					last = h.Fence()
					aside := locktest.LeaseOf(h).State().Aside
					require.Equal(t, name == "RedisLock" && mode != "fair", aside == asideMost, "%d set aside", aside)
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
			})
		}
	}
}

// Each of the readers has its own token, which it keeps when it goes on to
// write.
func TestTokensOfReaders(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	acquire := func(owner string, writes bool) relock.Hold {
		l := locktest.Owned(owner, relock.NewRWLock("fenced", c, relock.WithFencing()))
		take := l.RAcquire
		if writes {
			take = l.Acquire
		}
		h, err := take(t.Context())
		require.NoError(t, err)
		return h
	}
	first, second := acquire("a", false), acquire("b", false)
	require.Positive(t, first.Fence())
	require.Greater(t, second.Fence(), first.Fence())
	require.NoError(t, first.Unlock(t.Context()))
	upgraded := acquire("b", true)
	require.Equal(t, second.Fence(), upgraded.Fence())
	require.Equal(t, second.Fence(), locktest.Inspect(t, c, "fenced").Fence)
	require.NoError(t, upgraded.Unlock(t.Context()))
	require.NoError(t, second.Unlock(t.Context()))
	next := acquire("a", true)
	require.Greater(t, next.Fence(), second.Fence())
	require.NoError(t, next.Unlock(t.Context()))
}

// A lock that is handed off in memory has the next token of its block. When the
// block is used up, Redis grants the lock.
func TestTokensOfLocalHandOffs(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 2)
	h := acquired(t, relock.NewRedisLock(locktest.QueueKey, q.Clients[0], relock.WithFencing()))
	w := q.WaitLocally(t.Context(), 0, relock.WithFencing())
	next := q.PassTo(h, w)
	l := locktest.LeaseOf(next)
	require.Same(t, locktest.LeaseOf(h), l)
	require.Equal(t, h.Fence()+1, next.Fence())

	l.Set(func(s *lease.State) { s.Aside = 0 })
	w = q.WaitLocally(t.Context(), 0, relock.WithFencing())
	q.Unlock(next)
	last := w.Granted()
	require.NotSame(t, l, locktest.LeaseOf(last))
	require.Greater(t, last.Fence(), h.Fence()+asideMost)
	unfenced := q.WaitLocally(t.Context(), 0)
	other := q.PassTo(last, unfenced)
	require.NotSame(t, locktest.LeaseOf(last), locktest.LeaseOf(other))
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
	require.Equal(t, 1, locktest.Passes(next))
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
	for name, tt := range map[string]struct {
		third faults.Action
		err   error
	}{
		"the third one comes later": {faults.Delay(time.Second), nil},
		"the third one fails":       {faults.DropRequest, relock.ErrQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
			l := b.Patient(relock.WithFencing(), relock.WithMinHold(locktest.RedLease))
			b.Connect(b.Lock(b.Clients))
			for _, p := range b.Proxies[:2] {
				p.On(faults.Script(script.FenceRaise.SHA), faults.Every, faults.ErrorLine("ERR no"))
			}
			b.Proxies[2].On(faults.Script(script.RedLockAcquire.Fenced.SHA), faults.Every, tt.third)
			err := l.TryLock(t.Context())
			if tt.err == nil {
				require.NoError(t, err)
				require.NoError(t, l.Unlock(t.Context()))
				return
			}
			require.ErrorIs(t, err, tt.err)
			b.RequireFree(locktest.RedLease / 2)
		})
	}
}

// reentrantKinds returns the locks that an owner can take again.
func reentrantKinds(c *relock.Client) map[string]func(opts ...relock.LockOption) locktest.AnyLock {
	kinds := map[string]func(opts ...relock.LockOption) locktest.AnyLock{}
	for _, name := range []string{"ReentrantLock", "RWLock"} {
		kinds[name] = func(opts ...relock.LockOption) locktest.AnyLock {
			return locktest.Owned("me", locktest.AllKinds[name](name, c, opts...))
		}
	}
	return kinds
}

// A level cannot have what the hold does not have. It is refused, and the hold
// goes on as it was.
func TestLevelThatAsksForMoreThanTheHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for what, tt := range map[string]struct {
		outer, inner []relock.LockOption
		want         error
		says         string
	}{
		"a token":       {nil, []relock.LockOption{relock.WithFencing()}, relock.ErrInvalid, "WithFencing"},
		"replicas":      {nil, []relock.LockOption{relock.WithReplicas(1, 50*time.Millisecond)}, relock.ErrInvalid, "WithReplicas"},
		"the fair mode": {nil, []relock.LockOption{relock.WithFair()}, relock.ErrKeyConflict, ""},
		"no fair mode":  {[]relock.LockOption{relock.WithFair()}, nil, relock.ErrKeyConflict, ""},
	} {
		for name, lock := range reentrantKinds(locktest.NewTestClient(t, s)) {
			t.Run(what+"/"+name, func(t *testing.T) {
				outer := acquired(t, lock(tt.outer...))
				for _, opts := range [][]relock.LockOption{tt.inner, append([]relock.LockOption{relock.WithBlock()}, tt.inner...)} {
					_, err := lock(opts...).Acquire(t.Context())
					require.ErrorIs(t, err, tt.want)
					require.ErrorContains(t, err, tt.says)
				}
				require.NoError(t, outer.Err())
				require.NoError(t, outer.Unlock(t.Context()))
				require.ErrorIs(t, lock().Unlock(t.Context()), relock.ErrNotHeld)
			})
		}
	}
}

// A level that asks for less has what the hold has: a token, and replicas
// without which no validity is extended.
func TestLevelThatAsksForLessThanTheHold(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	kinds := reentrantKinds(locktest.NewTestClient(t, r.Master))
	type levels struct{ outer, inner relock.Hold }
	all := map[string]levels{}
	for name, lock := range kinds {
		outer := acquired(t, lock(locktest.OneReplica, relock.WithFencing()))
		inner := acquired(t, lock())
		require.Positive(t, outer.Fence())
		require.Equal(t, outer.Fence(), inner.Fence())
		all[name] = levels{outer, inner}
	}
	r.Disconnect()
	for name, h := range all {
		until := h.outer.ValidUntil()
		_, err := kinds[name](relock.WithWatchdog(time.Minute)).Acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrReplicas, name)
		require.ErrorIs(t, h.inner.Extend(t.Context(), time.Hour), relock.ErrReplicas, name)
		require.Equal(t, until, h.outer.ValidUntil(), name)
		require.NoError(t, h.inner.Unlock(t.Context()))
		require.NoError(t, h.outer.Unlock(t.Context()))
	}
}
