package test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/etcd/test/internal/member"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// cluster is etcd, each member in a separate process. Its clocks tick ten times
// as fast as by default: a TTL of 1 s is granted as 1 s, and a leader is
// elected within 200 ms.
type cluster struct {
	members   []*member.Member
	endpoints []string
	stopped   map[int]bool
}

const (
	tick     = 10  // ms
	election = 100 // ms
)

// newCluster starts n members, which end with the test.
func newCluster(t testing.TB, n int, changes ...func(*member.Config)) *cluster {
	t.Helper()
	c := &cluster{members: make([]*member.Member, n), stopped: map[int]bool{}}
	for i, config := range configs(t, n) {
		for _, change := range changes {
			change(&config)
		}
		c.endpoints = append(c.endpoints, config.Client)
		c.start(t, i, config)
		t.Cleanup(func() { c.crash(i) })
	}
	for _, m := range c.members {
		require.NoError(t, m.Ready(patience))
	}
	return c
}

// configs are those of n members that know each other.
func configs(t testing.TB, n int) []member.Config {
	t.Helper()
	dir, all, names := t.TempDir(), make([]member.Config, n), make([]string, n)
	for i := range all {
		name := fmt.Sprintf("m%d", i)
		all[i] = member.Config{
			Dir: filepath.Join(dir, name), Name: name, Client: freeAddress(t),
			Peer: freeAddress(t), TickMs: tick, ElectionMs: election,
		}
		names[i] = name + "=http://" + all[i].Peer
	}
	for i := range all {
		all[i].Cluster = strings.Join(names, ",")
	}
	return all
}

func freeAddress(t testing.TB) string {
	t.Helper()
	port, err := redistest.FindPort()
	require.NoError(t, err)
	return "127.0.0.1:" + port
}

func (c *cluster) start(t testing.TB, i int, config member.Config) {
	t.Helper()
	m, err := member.Start(config)
	require.NoError(t, err)
	c.members[i], c.stopped[i] = m, false
}

// stop ends a member, once.
func (c *cluster) stop(i int) { c.end(i, (*member.Member).Stop) }

// crash kills a member that was not stopped.
func (c *cluster) crash(i int) { c.end(i, (*member.Member).Kill) }

func (c *cluster) end(i int, end func(*member.Member)) {
	if m := c.members[i]; m != nil && !c.stopped[i] {
		c.stopped[i] = true
		end(m)
	}
}

// restart starts a member that was stopped, with the data that it had.
func (c *cluster) restart(t testing.TB, i int) {
	t.Helper()
	c.start(t, i, c.members[i].Config)
	require.NoError(t, c.members[i].Ready(patience))
}

// newSlowCluster is one member that grants no TTL below 6 s.
func newSlowCluster(t testing.TB) *cluster {
	t.Helper()
	return newCluster(t, 1, func(config *member.Config) { config.TickMs, config.ElectionMs = 400, 4000 })
}

// calm are clocks of members that elect no other leader on a busy machine. A
// TTL of 1 s is still granted as 1 s.
func calm(config *member.Config) { config.TickMs, config.ElectionMs = 50, 500 }

// leader is the index of the member that leads.
func (c *cluster) leader(t testing.TB) int {
	t.Helper()
	client, leads := c.client(t), -1
	soon(t, "there is a leader", func() bool {
		leads = slices.IndexFunc(c.endpoints, func(endpoint string) bool {
			s, err := statusOf(client, endpoint)
			return err == nil && s.Leader == s.Header.MemberId
		})
		return leads >= 0
	})
	return leads
}

// statusOf asks one member. One that has stopped does not answer.
func statusOf(client *clientv3.Client, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return client.Status(ctx, endpoint)
}

// moveLeader has the member after the leader lead.
func (c *cluster) moveLeader(t testing.TB, limit time.Duration) error {
	t.Helper()
	from := c.leader(t)
	client := c.client(t, c.endpoints[from])
	to, err := statusOf(client, c.endpoints[(from+1)%len(c.endpoints)])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err = client.MoveLeader(ctx, to.Header.MemberId)
	return err
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

// newLocker returns a Locker that is closed when the test ends. Its TTL is the
// default, which a busy machine keeps, unless an option sets another.
func newLocker(t testing.TB, client *clientv3.Client, opts ...etcdlock.Option) *etcdlock.Locker {
	t.Helper()
	l, err := etcdlock.NewLocker(client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// lease is the default TTL. A test that waits for the end of a lease, or for
// several renewals, has one of brief.
const (
	lease = 10 * time.Second
	brief = 5 * time.Second
)

// patience is the limit of what is not the point of a test.
const patience = testkit.Patience

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
	testkit.Eventually(t, patience, ok, what)
}

// noKeys waits until nothing of the lock is left.
func noKeys(t testing.TB, client *clientv3.Client, name string) {
	t.Helper()
	soon(t, "nothing is left of the lock", func() bool { return len(keysOf(t, client, name)) == 0 })
}

// foundLost waits until a renewal finds the hold lost. One is sent each third
// of the lease, and may take a sixth.
func foundLost(t testing.TB, hold relock.Hold, lease time.Duration) {
	t.Helper()
	s := testkit.NewStopwatch(t)
	require.ErrorIs(t, testkit.EndedWithin(t, hold.Context(), patience), relock.ErrLockLost)
	s.Within(lease/2, "the loss was found late")
	require.ErrorIs(t, hold.Err(), relock.ErrLockLost)
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
