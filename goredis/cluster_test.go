package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/cluster"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const slots = 16384

// startCluster runs a Cluster of three masters. A machine that stalls is no
// failover.
func startCluster(t testing.TB, replicasEach int) *redistest.Cluster {
	return redistest.StartCluster(t, 3, replicasEach, "--cluster-node-timeout", "20000")
}

// clusterClient returns a client of go-redis. It is closed when the test ends.
func clusterClient(t testing.TB, c *redistest.Cluster, change ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	return changed(t, redis.NewClusterClient, &redis.ClusterOptions{Addrs: c.Addresses()}, change)
}

// inCluster is clientsOver for a Cluster.
func inCluster(t testing.TB, c *redistest.Cluster) func() *relock.Client {
	return clientsOver(t, func() redis.UniversalClient { return clusterClient(t, c) })
}

// randomKey returns a key with and without tags, and with parts of tags.
func randomKey() string {
	const letters = "{}{}abc:\x00\xff"
	key := make([]byte, rand.IntN(20))
	for i := range key {
		key[i] = letters[rand.IntN(len(letters))]
	}
	return string(key)
}

// slotOf returns the slot of a key: the CRC16/XMODEM of its tag, as the
// specification of Redis Cluster has it.
func slotOf(key string) (slot int) {
	for _, c := range []byte(driver.TagOf(key)) {
		slot ^= int(c) << 8
		for range 8 {
			carry := slot >> 15
			slot = (slot<<1 ^ carry*0x1021) & 0xFFFF
		}
	}
	return slot % slots
}

// The slot of a key is the same for go-redis and for relock. Two clients of
// go-redis name the slot: each has a server for a part of its number.
func TestSlotsOfKeys(t *testing.T) {
	t.Parallel()
	const part = 128
	clientOf := func(name func(slot int) int) *redis.ClusterClient {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) (all []redis.ClusterSlot, err error) {
				for slot := range slots {
					all = append(all, redis.ClusterSlot{
						Start: slot, End: slot, Nodes: []redis.ClusterNode{{Addr: "10.0.0.1:" + strconv.Itoa(1+name(slot))}},
					})
				}
				return all, nil
			},
		})
		t.Cleanup(func() { require.NoError(t, rdb.Close()) })
		return rdb
	}
	high, low := clientOf(func(slot int) int { return slot / part }), clientOf(func(slot int) int { return slot % part })
	for range 10000 {
		key := randomKey()
		if key == "" { // go-redis takes any slot
			continue
		}
		slot := slotOf(key)
		require.Equal(t, "10.0.0.1:"+strconv.Itoa(1+slot/part), masterOf(t, high, key), "%q", key)
		require.Equal(t, "10.0.0.1:"+strconv.Itoa(1+slot%part), masterOf(t, low, key), "%q", key)
	}
}

func masterOf(t testing.TB, rdb *redis.ClusterClient, key string) string {
	node, err := rdb.MasterForKey(t.Context(), key)
	require.NoError(t, err)
	return node.Options().Addr
}

// keyOfEach returns a key in each slot.
func keyOfEach() (keys []string) {
	keys = make([]string, slots)
	for i, left := 0, slots; left > 0; i++ {
		key := fmt.Sprint("k", i)
		if slot := slotOf(key); keys[slot] == "" {
			keys[slot] = key
			left--
		}
	}
	return keys
}

// The slot tables of go-redis and of relock are the same for all slots, and
// they are again after slots have moved.
func TestSlotTables(t *testing.T) {
	t.Parallel()
	s := startCluster(t, 0)
	rdb := clusterClient(t, s)
	none := ""
	own := cluster.New(cluster.Config{Addresses: s.Addresses(), Servers: &driver.Config{
		Password: &none, DialTimeout: 5 * time.Second, CommandTimeout: 3 * time.Second,
	}})
	t.Cleanup(func() { require.NoError(t, own.Close()) })
	keys := keyOfEach()
	for range 10000 {
		if key := randomKey(); key != "" {
			keys = append(keys, key)
		}
	}
	differs := func() string {
		for _, key := range keys {
			address, err := own.Master(t.Context(), key)
			require.NoError(t, err)
			if theirs := masterOf(t, rdb, key); theirs != address {
				return fmt.Sprintf("slot %d of %q: %s and %s", slotOf(key), key, address, theirs)
			}
		}
		return ""
	}
	require.Empty(t, differs())
	masters := s.Masters(t)
	for range 5 {
		slot, to := rand.IntN(slots), masters[rand.IntN(len(masters))]
		if s.Master(t, slot) != to {
			s.MoveSlot(t, slot, to)
		}
	}
	own.Invalidate(masters[0].Address)
	rdb.ReloadState(t.Context())
	testkit.Eventually(t, testkit.Patience, func() bool { return differs() == "" }, "the tables stay different")
	for slot, key := range keys[:slots] {
		if rand.IntN(100) == 0 {
			require.Equal(t, s.Master(t, slot).Address, masterOf(t, rdb, key))
		}
	}
}

// A slot moves while a lock in it is held and renewed, and while calls wait for
// another one. The hold is kept, and the waiters get their turn at the new
// master, also while the slot is half moved.
func TestSlotThatMoves(t *testing.T) {
	t.Parallel()
	s := startCluster(t, 0)
	newClient := inCluster(t, s)
	slot := slotOf("moves")
	held, err := relock.NewRedisLock(nameIn(slot, "held"), newClient()).Acquire(t.Context())
	require.NoError(t, err)
	var inside atomic.Int32
	var served [4]atomic.Int32
	ctx, end := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range served {
		c := newClient()
		group.Go(func() {
			lock := relock.NewRedisLock("moves", c, relock.WithBlock(), relock.WithFair())
			for ctx.Err() == nil {
				err := lock.Do(ctx, func(context.Context) error {
					defer inside.Add(-1)
					if inside.Add(1) > 1 {
						return errors.New("two holds")
					}
					served[i].Add(1)
					return nil
				})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	awaitAll := func() {
		for i := range served {
			before := served[i].Load()
			testkit.Eventually(t, testkit.Patience, func() bool { return t.Failed() || served[i].Load() > before+1 },
				"a waiter is not served")
		}
	}
	for i, to := range slices.Repeat(s.Masters(t), 2) {
		awaitAll()
		switch {
		case s.Master(t, slot) == to:
		case i%2 == 0:
			s.MoveSlot(t, slot, to)
		default:
			s.MoveSlotSlowly(t, slot, to, 20*time.Millisecond)
		}
		locktest.Renew(t, held, testkit.Patience)
	}
	awaitAll()
	end()
	group.Wait()
	require.NoError(t, held.Unlock(t.Context()))
}

// A semaphore follows its slot as other locks do.
func TestSemaphoreOfASlotThatMoves(t *testing.T) {
	t.Parallel()
	s := startCluster(t, 0)
	locktest.PermitsWhileASlotMoves(t, s, "permits", inCluster(t, s), relock.WithFair())
}

// nameIn returns a name of a lock in a slot.
func nameIn(slot int, begin string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint(begin, i); slotOf(name) == slot {
			return name
		}
	}
}

// Masters fail under load, and their replicas replace them: every waiter gets
// its turn. With WithReplicas no two holds are valid together.
func TestHandOffsWhileMastersOfAClusterDie(t *testing.T) {
	t.Parallel()
	failovers := 1 // in each way
	if locktest.FullLength() {
		failovers = 20
	}
	s := redistest.StartCluster(t, 3, 2) // one replica is left after a failover
	locks := [2]string{s.NameAt(t, s.Servers[0], "unfair"), s.NameAt(t, s.Servers[0], "fair")}
	l := locktest.NewFailoverLoad(t, s, locks, inCluster(t, s), 1)
	for range failovers {
		for _, end := range locktest.MasterEnds {
			l.FailOver(end)
		}
	}
	l.Stop()
	l.RequireNoOverlap()
}

// README's line by categories, and what it has for a Cluster, are enough.
func TestCategoriesAllowACluster(t *testing.T) {
	t.Parallel()
	s := startCluster(t, 0)
	p := locktest.ReadCategories(t, "README.md")
	for _, one := range s.Servers {
		p.Allow(t, one, p.Cluster...)
	}
	c := newClientOnly(t,
		clusterClient(t, s, func(o *redis.ClusterOptions) { o.Username, o.Password = "app", "password" }))
	for i := range 20 {
		require.NoError(t, relock.NewRedisLock(fmt.Sprint(i), c, relock.WithBlock()).Do(t.Context(),
			func(context.Context) error { return nil }))
	}
}

// The dialer and the credentials of rdb are used, and its addresses, whatever
// its settings for reading are.
func TestOptionsOfACluster(t *testing.T) {
	t.Parallel()
	s := startCluster(t, 0)
	s.DoAll(t, "ACL", "SETUSER", "app", "on", ">one", "~*", "&*", "+@all")
	var dials atomic.Int32
	c := newClientOnly(t, clusterClient(t, s, func(o *redis.ClusterOptions) {
		o.ReadOnly, o.RouteByLatency = true, true
		o.CredentialsProvider = func() (user, password string) { return "app", "one" }
		o.NewClient = func(o *redis.Options) *redis.Client {
			o.Addr = strings.Replace(o.Addr, "127.0.0.1:", "localhost:", 1)
			return redis.NewClient(o)
		}
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			if network != "tcp" || !strings.HasPrefix(address, "localhost:") {
				return nil, fmt.Errorf("dial %s %s", network, address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	}))
	for i := range 20 {
		require.NoError(t, relock.NewRedisLock(fmt.Sprint(i), c).Do(t.Context(), func(context.Context) error { return nil }))
	}
	require.GreaterOrEqual(t, dials.Load(), int32(4), "a load, and each server")
	other := newClientOnly(t, clusterClient(t, s), relock.WithDatabase(1))
	err := relock.NewRedisLock("name", other, relock.WithBlock()).
		Do(t.Context(), func(context.Context) error { return nil })
	require.ErrorContains(t, err, "SELECT is not allowed in cluster mode")
	for _, one := range s.Servers {
		require.Contains(t, string(one.Do(t, "CLIENT", "LIST").([]byte)), "user=app")
	}
}

// The servers need not name a host, to which go-redis itself cannot connect.
func TestClusterThatNamesNoHost(t *testing.T) {
	t.Parallel()
	s := startCluster(t, 0)
	s.DoAll(t, "CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint")
	c := newClientOnly(t, clusterClient(t, s))
	for i := range 20 {
		require.NoError(t, relock.NewRedisLock(fmt.Sprint(i), c, relock.WithBlock()).Do(t.Context(),
			func(context.Context) error { return nil }))
	}
	slot := slotOf("moves")
	for _, to := range s.Masters(t) { // two of these moves are redirects
		if s.Master(t, slot) != to {
			s.MoveSlot(t, slot, to)
		}
		require.NoError(t,
			relock.NewRedisLock("moves", c, relock.WithBlock()).Do(t.Context(), func(context.Context) error { return nil }))
	}
}

// A user's Dialer may encrypt. The ports that servers name are then those for
// encrypted connections.
func TestDialerThatEncrypts(t *testing.T) {
	t.Parallel()
	s, address, config := redistest.StartTLS(t, "--cluster-enabled", "yes", "--tls-cluster", "yes",
		"--port", redistest.FreePort(t), "--cluster-announce-ip", "127.0.0.1")
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, slots-1)
	dial := (&tls.Dialer{Config: config}).DialContext
	c := newClient(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, Dialer: dial}))
	require.NoError(t, relock.NewRedisLock("name", c, relock.WithBlockTimeout(testkit.Patience)).Do(t.Context(),
		func(context.Context) error { return nil }))
}

// Errors have the class that decides what a caller does.
func TestErrorsOfACluster(t *testing.T) {
	t.Parallel()
	alone := redistest.StartTCP(t)
	locked := redistest.StartTCP(t, "--cluster-enabled", "yes", "--requirepass", "secret")
	for name, tt := range map[string]struct {
		change func(*redis.ClusterOptions)
		want   error
		text   string
	}{
		"no Cluster": {
			func(o *redis.ClusterOptions) { o.Addrs = []string{alone.Address} }, relock.ErrInvalid, "it is no Cluster",
		},
		"wrong log-in": {
			func(o *redis.ClusterOptions) { o.Addrs, o.Password = []string{locked.Address}, "hunter2" },
			relock.ErrDenied, "WRONGPASS",
		},
		"OnConnect that fails, which is not used": {func(o *redis.ClusterOptions) {
			o.Addrs, o.OnConnect = []string{alone.Address},
				func(context.Context, *redis.Conn) error { return errors.New("not to be called") }
		}, relock.ErrInvalid, "it is no Cluster"},
	} {
		o := &redis.ClusterOptions{}
		tt.change(o)
		rdb := redis.NewClusterClient(o)
		defer rdb.Close() //nolint:errcheck // it has no connection
		err := relock.NewRedisLock("name", newClientOnly(t, rdb), relock.WithBlock()).Lock(t.Context())
		require.ErrorIs(t, err, tt.want, name)
		require.False(t, relock.IsRetryableErr(err), name)
		require.ErrorContains(t, err, tt.text, name)
		require.NotContains(t, err.Error(), "hunter2", name)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer rdb.Close() //nolint:errcheck // it has no connection
	require.True(t, relock.IsRetryableErr(newClientOnly(t, rdb).Ping(t.Context())))
}

// A client takes the options of rdb, and works after rdb was closed.
func TestClientOutlivesRDB(t *testing.T) {
	t.Parallel()
	for _, rdb := range []redis.UniversalClient{
		redis.NewClient(&redis.Options{Addr: redistest.StartTCP(t).Address}),
		redis.NewClusterClient(&redis.ClusterOptions{Addrs: startCluster(t, 0).Addresses()}),
	} {
		c := newClientOnly(t, rdb)
		require.NoError(t, rdb.Close())
		for i := range 10 {
			require.NoError(t, relock.NewRedisLock(fmt.Sprint(i), c, relock.WithBlock()).Lock(t.Context()))
		}
	}
}
