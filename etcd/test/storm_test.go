package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// Cycles in each mode of TestManyCycles, and in TestStormOfFaults.
// TestManyCancels makes as many calls in each mode, some of which get the lock.
const (
	quietCycles  = 500
	stormyCycles = 300
)

// cycles is how many locks and unlocks a storm makes: RELOCK_ETCD_CYCLES, or n.
func cycles(n int) int64 {
	if set, err := strconv.Atoi(os.Getenv("RELOCK_ETCD_CYCLES")); err == nil {
		n = set
	}
	return int64(n)
}

func newRooms(n int) []*room {
	rooms := make([]*room, n)
	for i := range rooms {
		rooms[i] = &room{}
	}
	return rooms
}

// Many cycles over three members, with twenty faults: the leader
// changes, connections are cut, members are silent for a while, leases are
// revoked. No two holds are valid together, tokens rise, and no key stays.
func TestStormOfFaults(t *testing.T) {
	t.Parallel()
	const lockers, faults = 6, 20
	c := newCluster(t, 3)
	admin := c.client(t)
	var proxies []*proxy
	var through []string
	for _, endpoint := range c.endpoints {
		p := newProxy(t, endpoint)
		proxies, through = append(proxies, p), append(through, p.address)
	}
	rooms := newRooms(8)
	left, lost, shaken := atomic.Int64{}, atomic.Int64{}, atomic.Bool{}
	left.Store(cycles(stormyCycles))
	var group sync.WaitGroup
	for n := range lockers {
		mode := []string{"fair", "unfair"}[n%2]
		l := newLocker(t, c.client(t, through...),
			append(modes[mode], etcdlock.WithTTL(2*time.Second), etcdlock.WithPrefix("relock/"+mode))...)
		for range 4 {
			group.Go(func() {
				for left.Load() > 0 || !shaken.Load() {
					name := rand.IntN(len(rooms)/2)*2 + n%2 // a lock is fair or not
					switch visit(t, l, rooms[name], fmt.Sprintf("key%d", name)) {
					case wentOut:
						left.Add(-1)
					case lostIt:
						lost.Add(1)
					}
				}
			})
		}
	}
	revoked := revocations{}
	for i := range faults {
		shake(t, c, admin, proxies, i, revoked)
	}
	shaken.Store(true)
	group.Wait()
	t.Logf("%d faults, %d of the holds were lost", faults, lost.Load())
	for _, p := range proxies {
		p.cut()
	}
	ended := revoked.holds(t, admin)
	for _, r := range rooms {
		assert.Positive(t, r.entries)
		assert.Empty(t, r.wrong(ended), "two holds are valid together")
	}
	soon(t, "no lock is left", func() bool {
		for _, key := range keys(t, admin) {
			if strings.Contains(key, "lock/key") {
				return false
			}
		}
		return true
	})
}

// What becomes of a visit.
const (
	wentOut = iota // after it was in, or may have: its release was not confirmed
	stayedOut
	lostIt
)

// visit goes in and out once, as far as the faults allow.
func visit(t testing.TB, l *etcdlock.Locker, r *room, key string) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	hold, err := l.Lock(ctx, key)
	if err != nil {
		if !errors.Is(err, etcdlock.ErrPlaceLost) {
			t.Errorf("Lock: %v", err)
		}
		return stayedOut
	}
	r.enter(hold)
	runtime.Gosched()
	r.leave(hold)
	err = hold.Unlock(ctx)
	switch {
	case err == nil, errors.Is(err, relock.ErrUnconfirmed):
		return wentOut
	case !errors.Is(err, relock.ErrLockLost):
		t.Errorf("Unlock: %v", err)
	}
	return lostIt
}

// shake makes the i-th fault, a while after the one before. It takes effect, or
// the test fails.
func shake(t testing.TB, c *cluster, admin *clientv3.Client, proxies []*proxy, i int, revoked revocations) {
	time.Sleep(150 * time.Millisecond)
	p := proxies[i%len(proxies)]
	switch i % 4 {
	case 0:
		p.cut()
	case 1:
		soon(t, "the leader has changed", func() bool { return c.moveLeader(t, 2*time.Second) == nil })
	case 2:
		p.silence()
		time.Sleep(500 * time.Millisecond)
		p.cut()
	case 3:
		soon(t, "a lease is revoked", func() bool {
			leases, err := admin.Leases(limited(t))
			return err == nil && len(leases.Leases) > 0 &&
				revoked.revoke(t, admin, leases.Leases[rand.IntN(len(leases.Leases))].ID)
		})
	}
}

// Many cycles of many goroutines on one member: holds exclude each other,
// tokens rise, and no key stays.
func TestManyCycles(t *testing.T) {
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		t.Parallel() // with the other mode
		c := newCluster(t, 1)
		const crowded = 5 // to which a third of the visitors come
		rooms := newRooms(64)
		left := atomic.Int64{}
		left.Store(cycles(quietCycles)) // in each mode
		var group sync.WaitGroup
		began := time.Now()
		for range 4 {
			l := newLocker(t, c.client(t), opts...)
			for range 8 {
				group.Go(func() {
					for left.Add(-1) >= 0 {
						n := rand.IntN(len(rooms))
						if rand.IntN(3) == 0 {
							n = rand.IntN(crowded)
						}
						if visit(t, l, rooms[n], fmt.Sprintf("key%d", n)) != wentOut {
							t.Error("a hold was lost")
						}
					}
				})
			}
		}
		group.Wait()
		t.Logf("%v for %d cycles", time.Since(began).Round(time.Millisecond), cycles(quietCycles))
		for _, r := range rooms {
			assert.Empty(t, r.mixUps, "two holds are valid together")
		}
		client := c.client(t)
		soon(t, "nothing is left", func() bool { return len(keys(t, client)) == countCancelled(t, client) })
	})
}
