package matrix_test

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// newStorm has a client with a pool of its own, one with a full one, and one
// with a pool of the user's.
func newStorm(t testing.TB, s *redistest.Server, network, address string) *storm {
	const timeout = 300 * time.Millisecond
	pool := &redis.Pool{MaxIdle: 5, MaxActive: 20, Wait: true, Dial: func() (redis.Conn, error) {
		return redis.Dial(network, address, redis.DialReadTimeout(time.Second))
	}}
	t.Cleanup(func() { _ = pool.Close() }) // only to end its connections
	own, err := relock.NewClient(network, address, "", relock.WithCommandTimeout(timeout))
	require.NoError(t, err)
	full, err := relock.NewClient(network, address, "", relock.WithCommandTimeout(timeout), relock.WithMaxActive(stormWorkers), relock.WithWaitMode())
	require.NoError(t, err)
	user, err := relock.NewClientPool(pool, relock.WithCommandTimeout(timeout))
	require.NoError(t, err)
	storm := &storm{TB: t, server: s, clients: []*relock.Client{own, full, user}}
	t.Cleanup(func() {
		for _, c := range storm.clients {
			require.NoError(t, c.Close())
		}
	})
	return storm
}

// A server that is killed and comes back, stands still, forgets its scripts, is
// out of memory, cuts connections.
func TestStormAtTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	storm := newStorm(t, s, s.Network, s.Address)
	troubles := []func(){
		func() { s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") },
		func() { s.Do(t, "SCRIPT", "FLUSH") },
		func() {
			s.Pause(t)
			time.Sleep(rand.N(1200 * time.Millisecond))
			s.Resume(t)
		},
		func() {
			s.Kill(t)
			time.Sleep(rand.N(300 * time.Millisecond))
			s.BootAndLoad(t)
		},
		func() {
			s.Do(t, "CONFIG", "SET", "maxmemory", "1")
			time.Sleep(rand.N(200 * time.Millisecond))
			s.Do(t, "CONFIG", "SET", "maxmemory", "0")
		},
	}
	storm.rage(stormLength(t), func() {
		time.Sleep(rand.N(400 * time.Millisecond))
		troubles[rand.IntN(len(troubles))]()
	}, func() {})
}

// Messages that are lost, late, doubled, cut or falsified.
func TestStormOfMessages(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	storm := newStorm(t, s, proxy.Network, proxy.Address)
	var calm atomic.Bool
	anything := func([]string) bool { return !calm.Load() }
	// A copy of an acquire that was answered makes a hold of its own, which
	// nothing can tell from a wanted one.
	acquires := []*script.Script{script.Acquire, script.ReentrantAcquire, script.Try, script.Enqueue}
	notAcquire := func(args []string) bool {
		isAcquire := func(s *script.Script) bool { return faults.Script(s.SHA)(args) }
		return !calm.Load() && args[0] != "SET" && !slices.ContainsFunc(acquires, isAcquire)
	}
	storm.rage(stormLength(t), func() {
		calm.Store(false)
		time.Sleep(rand.N(20 * time.Millisecond))
		switch n := 1 + rand.IntN(5); rand.IntN(12) {
		case 0:
			proxy.Release()
		case 1:
			proxy.On(notAcquire, n, faults.Hold)
		default:
			late := rand.N(400 * time.Millisecond)
			actions := []faults.Action{
				faults.DropRequest, faults.DropAnswer, faults.CutBefore, faults.CutAfter, faults.Double, faults.HoldOnly, faults.HoldAndCut,
				faults.Delay(late), faults.DelayRequest(late), faults.ErrorLine(loading), faults.ExecuteThenError(loading),
			}
			proxy.On(anything, n, actions[rand.IntN(len(actions))])
		}
	}, func() {
		calm.Store(true)
		proxy.Release()
	})
}
