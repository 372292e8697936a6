package lease_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Each call that begins has one end, and each hold has one, also after
// hand-offs.
func TestObserverCountsInAStorm(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	s, c := locktest.OnOwn(t, relock.WithObserver(w.Observer()))
	clients := []*relock.Client{c, locktest.Sibling(t, s, c, relock.WithObserver(w.Observer()))}
	var group sync.WaitGroup
	for g := range 16 {
		c, block := clients[g%2], relock.WithBlock()
		rw := relock.NewRWLock("rw", c, block)
		locks := []relock.Mutex{
			relock.NewRedisLock("p", c, block), relock.NewReentrantLock("r", c, block), rw, rw.RLocker(),
			relock.NewMultiLock([]string{"p", "q"}, c, block),
		}
		group.Go(func() {
			for range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
				_ = locks[rand.IntN(len(locks))].Do(ctx, func(ctx context.Context) error {
					return locks[rand.IntN(2)].TryDo(ctx, locktest.Nothing)
				})
				cancel()
			}
			for _, l := range locks { // without a limit, for a machine too busy for 20 ms
				assert.NoError(t, l.Do(t.Context(), locktest.Nothing), "at the end of the storm")
			}
		})
	}
	group.Wait()
	w.LastEnd()
	require.Zero(t, w.Starts)
	for _, kind := range []string{"plain", "reentrant", "read", "write", "multi"} {
		require.Contains(t, w.Locked, kind, "no such hold in the storm")
	}
}

// A loss is reported when it happens, with its reason, and not again by Unlock.
func TestObserverOfLosses(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		opts []relock.LockOption
		lose func(t *testing.T, s *redistest.Server, c *relock.Client)
		why  error
	}{
		"fixed lease": {opts: []relock.LockOption{relock.WithExpiry(3 * time.Second)}, why: relock.ErrLockLost},
		"max hold":    {opts: []relock.LockOption{relock.WithMaxHold(3 * time.Second)}, why: relock.ErrMaxHold},
		"refused": {why: relock.ErrLockLost, lose: func(t *testing.T, s *redistest.Server, c *relock.Client) {
			s.Do(t, "DEL", locktest.KeyOf(c, "k"), locktest.KeyOf(c, locktest.OtherKey))
		}},
		"forced": {why: relock.ErrForced, lose: func(t *testing.T, _ *redistest.Server, c *relock.Client) {
			require.NoError(t, c.ForceUnlock(t.Context(), "k", "test"))
		}},
		"closed": {why: relock.ErrClosed, lose: func(t *testing.T, _ *redistest.Server, c *relock.Client) {
			require.NoError(t, c.Close())
		}},
	} {
		for kind, of := range map[string]string{
			"plain": "RedisLock", "reentrant": "ReentrantLock", "write": "RWLock", "multi": "MultiLock",
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s, w := redistest.Shared(t), locktest.NewWitness(t)
				c := locktest.Patient(locktest.NewTestClient(t, s, relock.WithObserver(w.Observer())))
				h, err := locktest.AllKinds[of]("k", c, one.opts...).Acquire(locktest.Marked(t))
				require.NoError(t, err)
				if one.lose != nil {
					one.lose(t, s, c)
					for _, member := range members(kind, h) {
						member.Lease().RenewNow()
					}
				}
				e := w.LastEnd()
				if kind == "multi" && name == "forced" { // by the loss of a member
					require.ErrorIs(t, e.Err, relock.ErrLockLost)
				} else {
					require.ErrorIs(t, e.Err, one.why)
				}
				require.Equal(t, kind, e.Kind)
				require.Len(t, w.Events(), 3)
				require.Error(t, h.Unlock(t.Context()))
				require.Empty(t, w.Events())
			})
		}
	}
}

// A loss is reported when the lease ends, and Unlock reports nothing more.
func TestObserverOfALossBeforeItsUnlock(t *testing.T) {
	const length = 3 * time.Second
	kinds := map[string]*lockspec.Kind{
		"plain": lockspec.Plain, "reentrant": lockspec.Reentrant, "write": lockspec.Write, "multi": lockspec.Multi,
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				ends := make(chan holds.End, 3)
				e := newEngine(t, io.Discard, lease.Hooks{HoldDone: func(_ context.Context, end holds.End) { ends <- end }})
				h := e.take(t, kind, "k", fixed(length))
				h.Announce()
				synctest.Wait()
				require.Empty(t, ends)
				time.Sleep(length)
				synctest.Wait()
				require.Len(t, ends, 1, "at the end of the lease")
				end := <-ends
				require.Equal(t, name, end.Kind)
				require.Equal(t, "hold", end.Op)
				require.ErrorIs(t, end.Err, relock.ErrLockLost)
				require.Error(t, h.Unlock())
				require.Empty(t, ends)
			})
		})
	}
}

// members are the holds whose leases the engine renews.
func members(kind string, h relock.Hold) []*lease.Hold {
	if kind == "multi" {
		return locktest.Level(h).Members()
	}
	return []*lease.Hold{locktest.Level(h)}
}

// A hold that has ended before its call was reported is reported right after
// it.
func TestObserverOfLossBeforeItIsTold(t *testing.T) {
	t.Parallel()
	const length = 3 * time.Second
	w := locktest.NewWitness(t)
	slow := relock.Observer{LockDone: func(context.Context, relock.LockDone) { time.Sleep(length) }}
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(slow), relock.WithObserver(w.Observer()))
	h := locktest.Take(t, relock.NewRedisLock("k", c, relock.WithExpiry(length)).Acquire)
	require.Error(t, h.Err())
	require.ErrorIs(t, w.LastEnd().Err, relock.ErrLockLost)
	require.Len(t, w.Events(), 3)
}

// The hold ends when Unlock begins, and is reported when the server has
// replied.
func TestObserverOfSlowUnlock(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	s, c := locktest.OnOwn(t, relock.WithObserver(w.Observer()), relock.WithCommandTimeout(testkit.Patience))
	h := locktest.Take(t, relock.NewRedisLock("k", c, relock.WithWatchdog(4*testkit.Patience)).Acquire)
	s.Pause(t)
	unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) })
	<-h.Context().Done()
	over := time.Now()
	require.Len(t, w.Events(), 2)
	s.Resume(t)
	require.NoError(t, testkit.ResultWithin(t, unlocked, testkit.Patience))
	require.False(t, w.LastEnd().End.After(over))
}

// A level may be unlocked by another goroutine of its owner before its grant
// was reported.
func TestObserverOfUnlockBeforeItIsTold(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	var l locktest.AnyLock
	other := make(chan error, 1)
	eager := relock.Observer{LockDone: func(ctx context.Context, e relock.LockDone) {
		if ctx.Value(locktest.MarkKey{}) != nil {
			go func() { other <- l.Unlock(context.Background()) }()
			require.NoError(t, <-other)
			require.Empty(t, w.Last.Kind)
		}
	}}
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(eager.And(w.Observer())))
	l = locktest.Owned("shared", relock.NewReentrantLock("k", c))
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Lock(locktest.Marked(t)))
	require.Equal(t, `over reentrant "k" mine <nil>`, w.Events()[4])
	require.NoError(t, l.Unlock(t.Context()))
	w.LastEnd()
}

// Renewals are reported: with a reply, without one, and the one that finds the
// loss.
func TestObserverOfRenewals(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	s, c := locktest.OnOwn(t, relock.WithObserver(w.Observer()), relock.WithCommandTimeout(2*time.Second))
	start := time.Now()
	h := locktest.Take(t, relock.NewRedisLock("k", c, relock.WithWatchdog(time.Minute)).Acquire)
	await := func(what string, as func(error) bool) {
		leaseOf(h).RenewNow()
		testkit.Eventually(t, testkit.Patience, func() bool {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			for _, e := range w.Renews {
				if e.Key == "k" && e.Start.After(start) && as(e.Err) {
					w.Renews = nil
					return true
				}
			}
			return false
		}, what)
	}
	isNil := func(err error) bool { return err == nil }
	await("a renewal", isNil)
	s.Pause(t)
	await("a renewal without a reply", relock.IsRetryableErr)
	s.Resume(t)
	await("a renewal again", isNil)
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	await("a renewal that is refused", func(err error) bool { return errors.Is(err, relock.ErrLockLost) })
	require.ErrorIs(t, w.LastEnd().Err, relock.ErrLockLost)
	require.Error(t, h.Unlock(t.Context()))
}

// Extend is reported as a renewal is, for each key of a hold.
func TestObserverOfExtend(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	s, c := locktest.OnShared(t, relock.WithObserver(w.Observer()))
	start := time.Now()
	h := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c, relock.WithExpiry(time.Minute)).Acquire)
	require.NoError(t, h.Extend(t.Context(), 2*time.Minute))
	renewed := map[string]error{}
	for _, e := range w.Renewals() {
		require.True(t, e.Start.After(start))
		renewed[e.Key] = e.Err
	}
	require.Equal(t, map[string]error{"a": nil, "b": nil}, renewed)
	require.NoError(t, h.Unlock(t.Context()))

	h = locktest.Take(t, relock.NewRedisLock("a", c, relock.WithExpiry(time.Minute)).Acquire)
	s.Do(t, "DEL", locktest.KeyOf(c, "a"))
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrLockLost)
	all := w.Renewals()
	require.Len(t, all, 3)
	require.ErrorIs(t, all[2].Err, relock.ErrLockLost)
	w.LastEnd()
}
