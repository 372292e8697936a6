package goredis

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/topology"
)

// When the table of rdb is loaded, beside the loads of rdb itself.
const (
	loadPause = time.Minute            // while it is valid
	slowLoad  = 500 * time.Millisecond // another load may begin then
	maxLoads  = 4                      // at the same time; each may wait for a server that hangs
	fixTime   = 10 * time.Second       // for which a redirect counts more than the table
)

// cluster is the topology of a Cluster's client. Its table says where slots
// are. Nobody but rdb can correct it. So redirects are remembered here, until
// the table agrees.
type cluster struct {
	*checks

	rdb   *redis.ClusterClient
	loads chan struct{} // has a value for each load under way

	// What redirects have said, by slot. It is nil before the first load. A map
	// is never changed. mu is held while it is stored.
	fixes atomic.Pointer[map[int]fix]

	// These are guarded by mu.
	table   map[string]*redis.Options // of the masters, by address
	others  map[string]*redis.Options // of servers that only redirects have named
	masters []string                  // of the table and of fixes, sorted
}

// fix is what a redirect has said.
type fix struct {
	key     string // one in the slot
	address string // of its master
	at      time.Time
}

func newCluster(rdb *redis.ClusterClient) *cluster {
	return &cluster{checks: newChecks(), rdb: rdb, loads: make(chan struct{}, maxLoads), others: map[string]*redis.Options{}}
}

// master returns the master of a key from memory. Only before the first load it
// waits for one.
func (c *cluster) master(ctx context.Context, key string) (string, error) {
	fixes, err := c.loaded(ctx)
	if err != nil {
		return "", err
	}
	driver.Unkept(ctx)
	if len(fixes) > 0 && key != "" {
		if f, ok := fixes[topology.SlotOf(key)]; ok {
			return f.address, nil
		}
	}
	return c.inTable(key)
}

// inTable returns the master of a key as rdb knows it. A slot without a master
// has any server, which refuses the request.
func (c *cluster) inTable(key string) (string, error) {
	node, err := c.rdb.MasterForKey(c.life, key) // from memory
	if err != nil {
		return "", explain(err)
	}
	return node.Options().Addr, nil
}

// all returns the masters that have slots.
func (c *cluster) all(ctx context.Context) ([]string, error) {
	if _, err := c.loaded(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.masters), nil
}

// loaded returns the fixes, if need be after a load.
func (c *cluster) loaded(ctx context.Context) (map[int]fix, error) {
	if fixes := c.fixes.Load(); fixes != nil {
		return *fixes, nil
	}
	c.begin.Do(func() { c.tasks.Start(c.watch) })
	c.mu.Lock()
	checked := c.checked
	c.mu.Unlock()
	if err := c.await(ctx, checked); err != nil {
		return nil, err
	}
	if fixes := c.fixes.Load(); fixes != nil {
		return *fixes, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return nil, c.err
}

// fix notes the master of a key's slot. The table is loaded soon: a slot rarely
// moves alone.
func (c *cluster) fix(key, address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fixes := map[int]fix{}
	if old := c.fixes.Load(); old != nil {
		fixes = maps.Clone(*old)
	}
	fixes[topology.SlotOf(key)] = fix{key, address, time.Now()}
	c.replace(fixes)
	signal(c.wake)
}

// replace stores the fixes, and notes the masters; mu is held.
func (c *cluster) replace(fixes map[int]fix) {
	c.fixes.Store(&fixes)
	masters := slices.Collect(maps.Keys(c.table))
	for _, f := range fixes {
		masters = append(masters, f.address)
	}
	slices.Sort(masters)
	masters = slices.Compact(masters)
	if c.masters != nil && !slices.Equal(c.masters, masters) {
		signal(c.changes)
	}
	c.masters = masters
}

// invalidate notes that a server does not answer, or takes no writes. The fixes
// that name it no longer count.
func (c *cluster) invalidate(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.masters, address) {
		return
	}
	c.keep(func(f fix) bool { return f.address != address })
	signal(c.wake)
}

// keep drops the other fixes; mu is held.
func (c *cluster) keep(wanted func(fix) bool) {
	fixes := maps.Clone(*c.fixes.Load())
	maps.DeleteFunc(fixes, func(_ int, f fix) bool { return !wanted(f) })
	c.replace(fixes)
}

// watch loads the table, until close. A load that somebody asks for comes after
// a short pause, and so do those while redirects and the table differ.
func (c *cluster) watch() {
	for c.rest(c.untilLoad(), c.wake) {
		c.check()
		if !c.rest(shortPause(), nil) {
			return
		}
	}
}

func (c *cluster) untilLoad() time.Duration {
	if fixes := c.fixes.Load(); fixes != nil && len(*fixes) > 0 {
		return 0
	}
	return loadPause - rand.N(loadPause/10)
}

// check loads the table. It does not wait for long: rdb asks its servers in
// random order, and waits for one that hangs.
func (c *cluster) check() {
	select {
	case c.loads <- struct{}{}:
	case <-c.life.Done():
		return
	}
	done := make(chan struct{})
	c.tasks.Start(func() {
		defer close(done)
		c.load()
		<-c.loads
	})
	c.rest(slowLoad, done)
}

// load makes rdb load its table. ReloadState would not do: it reports no end,
// and v9.9.0 ignores it until 200 ms after the last one.
func (c *cluster) load() {
	ctx, cancel := context.WithTimeout(c.life, checkLimit)
	defer cancel()
	var mu sync.Mutex
	found := map[string]*redis.Options{}
	err := c.rdb.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		found[node.Options().Addr] = node.Options()
		return nil
	})
	if err == nil && len(found) == 0 {
		err = redigo.Error("CLUSTERDOWN: no server of the Cluster has slots")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.learn(found)
	}
	c.conclude(explain(err))
}

// learn notes the masters of the table. It drops the fixes with which the table
// agrees, and old ones: names may differ for ever. mu is held.
func (c *cluster) learn(found map[string]*redis.Options) {
	c.table = found
	if c.fixes.Load() == nil {
		c.replace(map[int]fix{})
		return
	}
	c.keep(func(f fix) bool {
		address, err := c.inTable(f.key)
		return (err != nil || address != f.address) && time.Since(f.at) < fixTime
	})
	maps.DeleteFunc(c.others, func(address string, _ *redis.Options) bool { return !slices.Contains(c.masters, address) })
}
