package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// quorumLease is the lease, and the largest one, of the locks here. A server
// counts when it has been up for 2 s.
const (
	quorumLease = time.Second
	quorumUp    = 2
	quorumKey   = "quorum"
)

// node is one server, and a proxy in front of it for each contender.
type node struct {
	server  *redistest.Server
	proxies []*faults.Proxy
}

// newNodes starts five servers, and moves their clocks ahead so that they have
// been up for so many seconds.
func newNodes(t testing.TB, contenders, up int) (all []*node) {
	t.Helper()
	for range 5 {
		s, clock := redistest.StartWithClock(t)
		clock.Advance(t, time.Duration(up)*time.Second)
		n := &node{server: s}
		for range contenders {
			n.proxies = append(n.proxies, faults.Start(t, n.server.Network, n.server.Address))
		}
		all = append(all, n)
	}
	for _, n := range all {
		n.server.AwaitUp(t, up)
	}
	return all
}

func newContender(t testing.TB, nodes []*node, n int) (all []*relock.Client) {
	t.Helper()
	for _, one := range nodes {
		p := one.proxies[n]
		c, err := newProcessClient(p.Network, p.Address)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		all = append(all, c)
	}
	return all
}

// witness detects two holds that are valid at the same time.
type witness struct {
	mu      sync.Mutex
	holds   []relock.Hold // by contender; nil while it has none
	doubles int
	grants  atomic.Int64
}

func (w *witness) set(n int, h relock.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds[n] = h
}

// check calls Err of one hold before and after that of another. If all three
// are nil, both holds were valid together.
func (w *witness) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, a := range w.holds {
		for _, b := range w.holds[i+1:] {
			if a != nil && b != nil && a.Err() == nil && b.Err() == nil && a.Err() == nil {
				w.doubles++
			}
		}
	}
}

// compete repeatedly takes the lock, keeps it for some time and releases it.
func (w *witness) compete(ctx context.Context, t testing.TB, n int, clients []*relock.Client) {
	lock := relock.NewRedLock(quorumKey, clients,
		relock.WithBlock(), relock.WithMaxLease(quorumLease), relock.WithWatchdog(quorumLease),
		relock.WithPollInterval(10*time.Millisecond))
	for ctx.Err() == nil {
		h, err := lock.Acquire(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("Acquire: %v", err)
			}
			continue
		}
		w.grants.Add(1)
		w.set(n, h)
		for end := time.Now().Add(rand.N(3 * quorumLease / 2)); time.Now().Before(end) && ctx.Err() == nil &&
			h.Err() == nil; {
			w.check()
			time.Sleep(time.Millisecond)
		}
		w.check()
		if err := h.Unlock(ctx); err != nil && !errors.Is(err, relock.ErrLockLost) && !errors.Is(err, relock.ErrUnconfirmed) {
			t.Errorf("Unlock: %v", err)
		}
		w.set(n, nil)
	}
}

// disturb applies a fault to one node for a while, and returns when it has
// recovered.
func disturb(t testing.TB, one *node) {
	pause := rand.N(2 * quorumLease)
	p := one.proxies[rand.IntN(len(one.proxies))]
	switch rand.IntN(6) {
	case 0:
		one.server.Pause(t)
		time.Sleep(pause)
		one.server.Resume(t)
	case 1: // empty again, for longer than the largest lease
		one.server.Kill(t)
		time.Sleep(pause / 8)
		one.server.Boot(t)
		one.server.AwaitUp(t, quorumUp)
	case 2:
		p.Stall()
		time.Sleep(pause)
		p.Resume()
	case 3:
		p.Refuse()
		time.Sleep(pause)
		p.Accept()
	case 4:
		for range 20 {
			p.On(faults.Any, 1+rand.IntN(20), faults.Delay(rand.N(quorumLease/2)))
		}
		time.Sleep(pause)
	default:
		for range 20 {
			kinds := []faults.Action{
				faults.DropRequest, faults.DropAnswer, faults.CutBefore, faults.CutAfter, faults.Double, faults.Hold,
			}
			p.On(faults.Any, 1+rand.IntN(20), kinds[rand.IntN(len(kinds))])
		}
		time.Sleep(pause)
	}
}

// Of five servers, at most two at a time are paused, restarted empty, cut off,
// slow or lose messages. No two contenders have a valid hold at the same time,
// and the lock changes hands. With three servers down there is a clear error in
// time.
func TestRedLockWithFaultsOnTwoNodes(t *testing.T) {
	t.Parallel()
	const contenders = 3
	nodes := newNodes(t, contenders, quorumUp)
	w := &witness{holds: make([]relock.Hold, contenders)}
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all [][]*relock.Client
	for n := range contenders {
		clients := newContender(t, nodes, n)
		all = append(all, clients)
		group.Go(func() { w.compete(ctx, t, n, clients) })
	}
	free := make(chan *node, len(nodes)) // that nothing happens to
	for _, n := range rand.Perm(len(nodes)) {
		free <- nodes[n]
	}
	for range 2 {
		group.Go(func() {
			for ctx.Err() == nil {
				one := <-free
				disturb(t, one)
				free <- one
			}
		})
	}
	time.Sleep(pick(90*time.Second, 8*time.Second))
	testkit.Eventually(t, patience, func() bool { return w.grants.Load() >= 5 }, "the lock does not go round")
	cancel()
	group.Wait()
	t.Logf("%d grants", w.grants.Load())
	require.Zero(t, w.doubles, "two holds were valid at the same time")

	for _, n := range nodes[:3] {
		n.server.Kill(t)
	}
	watch := testkit.NewStopwatch(t)
	err := relock.NewRedLock("another", all[0], relock.WithMaxLease(quorumLease), relock.WithWatchdog(quorumLease)).
		Lock(t.Context())
	watch.Within(quorumLease)
	require.ErrorIs(t, err, relock.ErrQuorum)
	var which *relock.NodeError
	require.ErrorAs(t, err, &which)
}

// A server that was restarted empty has forgotten its vote. It does not count
// for the length of a lease, so that the holder's validity ends before another
// contender gets a quorum.
//
// The positive control is a contender with a shorter largest lease, which
// counts the server too soon. It holds the lock at the same time as the first
// one.
func TestRedLockRestartGuard(t *testing.T) {
	t.Parallel()
	together(t, map[string]bool{"guarded": true, "positive control": false}, func(t *testing.T, guarded bool) {
		lease := 6 * time.Second
		if !guarded {
			lease *= 10 // the other one must be sooner, on a slow machine too
		}
		nodes := newNodes(t, 2, int(lease/time.Second)+1)
		holder, other := newContender(t, nodes, 0), newContender(t, nodes, 1)
		for _, n := range nodes[3:] {
			n.proxies[0].Refuse() // the holder has the lock on three of five
		}
		h, err := relock.NewRedLock(quorumKey, holder, relock.WithMaxLease(lease), relock.WithExpiry(lease)).
			TryAcquire(t.Context())
		require.NoError(t, err)
		nodes[2].server.Kill(t)
		nodes[2].server.Boot(t)
		opts := []relock.LockOption{relock.WithBlock(), relock.WithPollInterval(5 * time.Millisecond)}
		if guarded {
			opts = append(opts, relock.WithMaxLease(lease), relock.WithWatchdog(lease))
		} else {
			opts = append(opts, relock.WithMaxLease(quorumLease), relock.WithWatchdog(quorumLease))
		}
		next, err := relock.NewRedLock(quorumKey, other, opts...).Acquire(t.Context())
		require.NoError(t, err)
		second, first := next.Err(), h.Err()
		require.NoError(t, second)
		if guarded {
			require.ErrorIs(t, first, relock.ErrLockLost, "two have the lock")
		} else {
			require.NoError(t, first, "the test does not show what it is for")
		}
		if err := next.Unlock(t.Context()); err != nil {
			require.ErrorIs(t, err, relock.ErrUnconfirmed, "it has a third of a lease")
		}
	})
}

// pace is how often something happens.
type pace struct {
	watch   *testkit.Stopwatch
	mu      sync.Mutex
	times   int
	last    time.Time
	longest time.Duration // between two of them
}

func newPace(t testing.TB) *pace { return &pace{watch: testkit.NewStopwatch(t), last: time.Now()} }

func (p *pace) note() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times++
	p.longest = max(p.longest, time.Since(p.last))
	p.last = time.Now()
}

func (p *pace) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%d times, at most %v between", p.times, p.longest)
}

// require checks that it has happened often enough.
func (p *pace) require(promise time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch.Check(max(p.longest, time.Since(p.last)), promise, "no progress")
}

// Twenty clients that lock random 3 of 6 keys, or one of them, make progress in
// each second. No two hold a key together, and no key is left.
func TestMultiLockProgress(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"together": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			multiLocksProgress(t, apart)
		})
	}
}

func multiLocksProgress(t *testing.T, apart bool) {
	s := redistest.Start(t)
	limit := pick(30*time.Second, 4*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	paces := map[int]*pace{1: newPace(t), 3: newPace(t)} // by the number of keys
	var inside [6]atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		client := newParentClient(t, s)
		locktest.Engine(client).OneByOne.Store(apart)
		group.Go(func() {
			for ctx.Err() == nil {
				chosen := rand.Perm(len(inside))[:3]
				var lock relock.Mutex = relock.NewMultiLock(namesOf(chosen), client, relock.WithBlock())
				if rand.IntN(4) == 0 {
					chosen = chosen[:1]
					lock = relock.NewRedisLock(namesOf(chosen)[0], client, relock.WithBlock())
				}
				err := lock.Do(ctx, func(context.Context) error {
					for _, n := range chosen {
						if inside[n].Add(1) != 1 {
							t.Errorf("two have key %d", n)
						}
					}
					time.Sleep(rand.N(2 * time.Millisecond))
					for _, n := range chosen {
						inside[n].Add(-1)
					}
					paces[len(chosen)].note()
					return nil
				})
				if err != nil && ctx.Err() == nil {
					t.Errorf("Do: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	for keys, p := range paces {
		t.Logf("%d keys: %v", keys, p)
		p.require(time.Second)
	}
	for n := range inside {
		testkit.Eventually(t, patience, func() bool {
			key := keyInRedis(fmt.Sprint("multi:", n))
			return s.Do(t, "EXISTS", key, key+":q") == int64(0)
		}, "nothing is left")
	}
}

func namesOf(keys []int) (all []string) {
	for _, n := range keys {
		all = append(all, fmt.Sprint("multi:", n))
	}
	return all
}

// A MultiLock gets in beside two goroutines for each of its keys, which lock
// them without a pause and hold them for 5 ms.
func TestMultiLockGetsInEachSecond(t *testing.T) {
	for _, keys := range []int{2, 5} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			limit := pick(15*time.Second, 2*time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			work := func(lock relock.Mutex, done func()) {
				for ctx.Err() == nil {
					err := lock.Do(ctx, func(context.Context) error {
						time.Sleep(5 * time.Millisecond)
						done()
						return nil
					})
					if err != nil && ctx.Err() == nil {
						t.Errorf("Do: %v", err)
						return
					}
				}
			}
			names := namesOf(rand.Perm(keys))
			singles, p := newParentClient(t, s), newPace(t)
			var single atomic.Int64
			var group sync.WaitGroup
			for _, name := range names {
				for range 2 {
					group.Go(func() { work(relock.NewRedisLock(name, singles, relock.WithBlock()), func() { single.Add(1) }) })
				}
			}
			multi := relock.NewMultiLock(names, newParentClient(t, s), relock.WithBlock())
			group.Go(func() { work(multi, p.note) })
			group.Wait()
			t.Logf("%v; single keys: %d", p, single.Load())
			p.require(time.Second)
		})
	}
}
