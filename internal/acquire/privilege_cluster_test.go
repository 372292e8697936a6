package acquire_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// clusterUser is a user of a Cluster, whose permissions are tried.
type clusterUser struct {
	*testing.T
	cluster *redistest.Cluster
	clients [2]*relock.Client
	name    string // of a lock
}

// A user of a Cluster needs what docs/operations.md says, in addition to what
// others need. Without each of it, happens what is said there.
func TestPrivilegesOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	p := locktest.ReadPrivileges(t)
	require.Equal(t, []string{"+cluster|shards", "+cluster|slots", "+asking", "+ssubscribe", "+spublish", "&relock:*"},
		p.Cluster)
	all := append(slices.Clone(p.Wait[2:]), p.Cluster...)
	for name, test := range map[string]struct {
		without []string
		check   func(*clusterUser)
	}{
		"all": {nil, func(u *clusterUser) {
			u.requireNotified()
			require.NoError(u, u.lockInHalfMovedSlot())
			u.requireNothingDenied()
		}},
		"CLUSTER SHARDS": {[]string{"+cluster|shards"}, (*clusterUser).requireNotified},
		"CLUSTER SLOTS":  {[]string{"+cluster|slots"}, (*clusterUser).requireNotified},
		"both": {[]string{"+cluster|shards", "+cluster|slots"}, func(u *clusterUser) {
			err := relock.NewRedisLock(u.name, u.clients[0], relock.WithBlock()).Lock(u.Context())
			require.ErrorIs(u, err, relock.ErrDenied)
			require.ErrorContains(u, err, "+cluster|shards or +cluster|slots")
		}},
		"ASKING": {[]string{"+asking"}, func(u *clusterUser) {
			u.requireNotified()
			require.ErrorIs(u, u.lockInHalfMovedSlot(), relock.ErrDenied)
		}},
		"SSUBSCRIBE":              {[]string{"+ssubscribe"}, (*clusterUser).requireNotified},
		"SPUBLISH":                {[]string{"+spublish"}, (*clusterUser).requirePolling},
		"SSUBSCRIBE and SPUBLISH": {[]string{"+ssubscribe", "+spublish"}, (*clusterUser).requireNotified},
		"channels":                {[]string{"&relock:*"}, (*clusterUser).requirePolling},
	} {
		t.Run("without "+name, func(t *testing.T) {
			rules := slices.DeleteFunc(slices.Clone(all), func(rule string) bool { return slices.Contains(test.without, rule) })
			test.check(newClusterUser(t, c, p, rules))
		})
	}
}

// The READMEs' line by categories, and what they have for a Cluster, allow
// everything there.
func TestCategoriesAllowACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	p := locktest.ReadCategories(t, "README.md")
	require.Equal(t, []string{"+cluster|shards", "+cluster|slots", "+asking"}, p.Cluster)
	require.Equal(t, p, locktest.ReadCategories(t, "README.zh-CN.md"))
	u := newClusterUser(t, c, p, p.Cluster)
	u.requireNotified()
	require.NoError(t, u.lockInHalfMovedSlot())
	u.requireNothingDenied()
}

func (u *clusterUser) requireNothingDenied() {
	u.Helper()
	for _, s := range u.cluster.Servers {
		require.Empty(u, s.Do(u, "ACL", "LOG"), "nothing is denied")
	}
}

func newClusterUser(t *testing.T, c *redistest.Cluster, p locktest.Privileges, rules []string) *clusterUser {
	t.Helper()
	u := &clusterUser{T: t, cluster: c, name: c.NameAt(t, c.Servers[1], t.Name())}
	for _, s := range c.Servers {
		p.Allow(t, s, rules...)
		s.Do(t, "ACL", "LOG", "RESET")
	}
	for i := range u.clients {
		client, err := relock.NewClientCluster(c.Addresses()[:1], "password", relock.WithUsername("app"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		u.clients[i] = client
	}
	return u
}

// handOff has a waiter get a lock by its release. Before that, ready waits for
// something about the waiter.
func (u *clusterUser) handOff(poll time.Duration, ready func(s *redistest.Server, key string)) {
	u.Helper()
	h := locktest.Take(u, relock.NewRedisLock(u.name, u.clients[0]).Acquire)
	opts := []relock.LockOption{
		relock.WithBlockTimeout(testkit.Patience), relock.WithPollInterval(poll), relock.WithWatchdog(4 * locktest.Seldom),
	}
	granted := testkit.Async(u, func() error {
		return relock.NewRedisLock(u.name, u.clients[1], opts...).Do(u.Context(), locktest.Nothing)
	})
	ready(u.cluster.Servers[1], locktest.KeyOf(u.clients[1], u.name))
	require.NoError(u, h.Unlock(u.Context()))
	require.NoError(u, testkit.ResultWithin(u, granted, testkit.Patience))
}

func (u *clusterUser) requireNotified() {
	u.Helper()
	for range 3 {
		u.handOff(locktest.Seldom,
			func(s *redistest.Server, key string) { locktest.AwaitSubscribed(u, s, key, u.clients[1]) })
	}
}

// requirePolling checks that the server reaches no subscription of a waiter,
// which polls, and gets the lock even so.
func (u *clusterUser) requirePolling() {
	u.Helper()
	u.handOff(20*time.Millisecond, func(s *redistest.Server, key string) {
		beat := func() string {
			text, _ := redis.String(s.Do(u, "HGET", key+":b", locktest.Engine(u.clients[1]).Identity.ID), nil)
			return text
		}
		testkit.Eventually(u, testkit.Patience, func() bool { return beat() != "" }, "is queued")
		for range 3 {
			before := beat()
			testkit.Eventually(u, testkit.Patience, func() bool { return beat() != before }, "polls")
			require.False(u, strings.HasSuffix(beat(), ":1"), beat())
		}
	})
}

// lockInHalfMovedSlot takes a lock that its old server does not have any more.
func (u *clusterUser) lockInHalfMovedSlot() error {
	u.Helper()
	move := u.cluster.BeginMove(u, u.cluster.SlotOf(u, u.name), u.cluster.Servers[0])
	defer move.Finish(u)
	l := relock.NewRedisLock(u.name, u.clients[0])
	if err := l.Lock(u.Context()); err != nil {
		return err
	}
	return l.Unlock(u.Context())
}
