package test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/etcd/test/internal/embedded"
)

// cluster is embedded etcd. Its clocks tick ten times as fast as by default: a
// TTL of 1 s is granted as 1 s, and a leader is elected within 200 ms.
type cluster struct {
	members   []*embed.Etcd
	endpoints []string
	stopped   map[int]bool
}

const (
	tick     = 10  // ms
	election = 100 // ms
)

// newCluster starts n members, which are stopped when the test ends.
func newCluster(t testing.TB, n int, changes ...func(*embed.Config)) *cluster {
	t.Helper()
	c := &cluster{stopped: map[int]bool{}}
	dir := t.TempDir()
	configs := make([]*embed.Config, n)
	var names []string
	for i := range configs {
		cfg := configOf(t, filepath.Join(dir, fmt.Sprint(i)), fmt.Sprintf("m%d", i))
		for _, change := range changes {
			change(cfg)
		}
		names = append(names, cfg.Name+"="+cfg.ListenPeerUrls[0].String())
		configs[i] = cfg
		c.endpoints = append(c.endpoints, cfg.ListenClientUrls[0].Host)
	}
	for i, cfg := range configs {
		cfg.InitialCluster = strings.Join(names, ",")
		member, err := embed.StartEtcd(cfg)
		require.NoError(t, err)
		c.members = append(c.members, member)
		t.Cleanup(func() { c.stop(i) })
	}
	for _, member := range c.members {
		select {
		case <-member.Server.ReadyNotify():
		case <-time.After(patience):
			t.Fatal("etcd does not get ready")
		}
	}
	return c
}

// stop ends a member, once.
func (c *cluster) stop(i int) {
	if !c.stopped[i] {
		c.stopped[i] = true
		c.members[i].Close()
	}
}

// restart starts a member that was stopped, with the data that it had.
func (c *cluster) restart(t testing.TB, i int) {
	t.Helper()
	cfg := c.members[i].Config()
	member, err := embed.StartEtcd(&cfg)
	require.NoError(t, err)
	c.members[i], c.stopped[i] = member, false
}

// newSlowCluster is one member with the default clocks.
func newSlowCluster(t testing.TB) *cluster {
	t.Helper()
	cfg := configOf(t, t.TempDir(), "slow")
	cfg.TickMs, cfg.ElectionMs = 100, 1000
	cfg.InitialCluster = cfg.Name + "=" + cfg.ListenPeerUrls[0].String()
	member, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	t.Cleanup(member.Close)
	<-member.Server.ReadyNotify()
	return &cluster{members: []*embed.Etcd{member}, endpoints: []string{cfg.ListenClientUrls[0].Host}}
}

func configOf(t testing.TB, dir, name string) *embed.Config {
	t.Helper()
	cfg, err := embedded.Config(dir)
	require.NoError(t, err)
	cfg.Name = name
	cfg.TickMs, cfg.ElectionMs = tick, election
	cfg.BcryptCost = 4
	cfg.UnsafeNoFsync = true // what is tested does not depend on the disk
	return cfg
}

// calm are clocks of members that elect no other leader on a busy machine. A
// TTL of 1 s is still granted as 1 s.
func calm(cfg *embed.Config) { cfg.TickMs, cfg.ElectionMs = 50, 500 }

// leader is the index of the member that leads.
func (c *cluster) leader(t testing.TB) int {
	t.Helper()
	for range 1000 {
		for i, m := range c.members {
			if m.Server.Leader() == m.Server.MemberID() {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("there is no leader")
	return 0
}

// client returns a client of all members, unless endpoints are given. It is
// closed before the cluster.
func (c *cluster) client(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	return c.clientWith(t, clientv3.Config{Endpoints: endpoints})
}

func (c *cluster) clientWith(t testing.TB, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	if len(cfg.Endpoints) == 0 {
		cfg.Endpoints = c.endpoints
	}
	cfg.Logger = zap.NewNop()
	client, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// faulty returns a client whose requests pass through the faults.
func (c *cluster) faulty(t testing.TB, f *faults) *clientv3.Client {
	t.Helper()
	return c.clientWith(t, clientv3.Config{DialOptions: f.dial()})
}

// newLocker returns a Locker that is closed when the test ends. Its TTL is a
// second, unless an option sets another.
func newLocker(t testing.TB, client *clientv3.Client, opts ...etcdlock.Option) *etcdlock.Locker {
	t.Helper()
	l, err := etcdlock.NewLocker(client, append([]etcdlock.Option{etcdlock.WithTTL(ttl)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

const ttl = time.Second

// patience is the limit of what is not the point of a test. Beside other
// programs, etcd gets a small share of the processors.
const patience = time.Minute

// modes are the options of both sorts of locks.
var modes = map[string][]etcdlock.Option{"unfair": nil, "fair": {etcdlock.WithFair()}}

// inModes runs the test for both.
func inModes(t *testing.T, test func(t *testing.T, opts ...etcdlock.Option)) {
	t.Helper()
	for name, opts := range modes {
		t.Run(name, func(t *testing.T) { test(t, opts...) })
	}
}

// inModesTogether runs the test for both at the same time, each with its own
// server: for tests that spend their time waiting.
func inModesTogether(t *testing.T, test func(t *testing.T, c *cluster, opts ...etcdlock.Option)) {
	t.Helper()
	together(t, modes, func(t *testing.T, opts []etcdlock.Option) { test(t, newCluster(t, 1), opts...) })
}

// together runs the cases at the same time. They count as one parallel test.
func together[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Helper()
	var group sync.WaitGroup
	for name, c := range cases {
		group.Go(func() {
			t.Run(name, func(t *testing.T) { test(t, c) })
		})
	}
	group.Wait()
}

func isFair(opts []etcdlock.Option) bool { return len(opts) > 0 }

// limited is a context that ends when a test has waited for long enough.
func limited(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func lock(t testing.TB, l relock.Locker, key string) relock.Hold {
	t.Helper()
	hold, err := l.Lock(limited(t), key)
	require.NoError(t, err)
	return hold
}

func unlock(t testing.TB, hold relock.Hold) {
	t.Helper()
	require.NoError(t, hold.Unlock(context.Background()))
}

// keys are those of all Lockers with the default prefix.
func keys(t testing.TB, client *clientv3.Client) []string {
	t.Helper()
	resp, err := client.Get(limited(t), "relock/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	var names []string
	for _, kv := range resp.Kvs {
		names = append(names, string(kv.Key))
	}
	return names
}

// keysOf are those of one lock.
func keysOf(t testing.TB, client *clientv3.Client, name string) []string {
	t.Helper()
	var of []string
	for _, key := range keys(t, client) {
		if strings.HasPrefix(key, "relock/lock/"+name+"/") {
			of = append(of, key)
		}
	}
	return of
}

// soon waits until ok is true.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, 10*time.Second, what, ok)
}

func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// noKeys waits until nothing of the lock is left.
func noKeys(t testing.TB, limit time.Duration, client *clientv3.Client, name string) {
	t.Helper()
	var left []string
	within(t, limit, "nothing is left of the lock", func() bool { left = keysOf(t, client, name); return len(left) == 0 })
}

// A result is what a call on another goroutine came to.
type result struct {
	hold relock.Hold
	err  error
	at   time.Time
}

// waiter calls Lock on another goroutine.
func waiter(ctx context.Context, l relock.Locker, key string) <-chan result {
	done := make(chan result, 1)
	go func() {
		hold, err := l.Lock(ctx, key)
		done <- result{hold, err, time.Now()}
	}()
	return done
}

func await(t testing.TB, done <-chan result) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(patience):
		t.Fatal("a call did not return")
		return result{}
	}
}
