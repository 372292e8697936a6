package test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	children "github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// electionTTL is long enough for processes that start beside a leader on a busy
// machine.
const electionTTL = 2 * time.Second

// campaignRole campaigns until the test ends it.
func campaignRole(self *children.Self) error {
	l, closeAll, err := newChildLocker(self, etcdlock.WithTTL(electionTTL))
	if err != nil {
		return err
	}
	defer closeAll()
	return locktest.Campaign(self, l, "key")
}

// Three processes campaign. Their leaders are killed, stopped, cut off, ended
// and deposed. No two lead together, and the next one leads in time.
func TestElectionStorm(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		admin := c.client(t)
		e := &locktest.Election{T: t, Lease: electionTTL}
		e.Spawn = func() *locktest.Candidate {
			p := newProxy(t, c.endpoints[0])
			return &locktest.Candidate{
				Child: children.Spawn(t, "campaign", p.address, modeOf(opts)), Cut: p.silence, Mend: p.cut,
			}
		}
		e.Force = func() {
			if key, _ := holderOf(t, admin); key != "" {
				_, err := admin.Delete(limited(t), key)
				require.NoError(t, err)
			}
		}
		e.Hold(int(min(200, cycles(5))))
	})
}

// holderOf returns the key of the hold and its lease, or "" if there is none.
func holderOf(t *testing.T, admin *clientv3.Client) (key string, lease clientv3.LeaseID) {
	t.Helper()
	resp, err := admin.Get(limited(t), "relock/lock/key/", clientv3.WithFirstCreate()...)
	require.NoError(t, err)
	if len(resp.Kvs) == 0 {
		return "", 0
	}
	return string(resp.Kvs[0].Key), clientv3.LeaseID(resp.Kvs[0].Lease)
}

// The lease of a candidate ends while it waits, and again while it leads. It
// neither waits for ever nor leads without a key: it campaigns again.
func TestLeaderWhoseLeaseEnds(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		admin := c.client(t)
		opts = append(opts, etcdlock.WithTTL(brief))
		hold := lock(t, newLocker(t, c.client(t), opts...), "key")
		others := leasesOf(t, admin)
		leader := relock.NewLeader(newLocker(t, c.client(t), opts...), "key")
		ctx, cancel := context.WithCancel(limited(t))
		done := testkit.Async(t, func() error {
			return leader.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		})
		revoke := func() {
			soon(t, "its lease has ended", func() bool {
				for id := range leasesOf(t, admin) {
					if !others[id] {
						others[id] = true
						_, err := admin.Revoke(limited(t), id)
						return err == nil
					}
				}
				return false
			})
		}
		revoke()
		require.ErrorIs(t, leader.IsLeader(ctx), relock.ErrNotHeld)
		require.NoError(t, hold.Err())
		unlock(t, hold)
		for range 2 {
			soon(t, "it leads", func() bool { return leader.IsLeader(ctx) == nil })
			require.Len(t, keysOf(t, admin, "key"), 1)
			_, lease := holderOf(t, admin)
			require.False(t, others[lease], "under another lease")
			revoke()
			soon(t, "it has noticed", func() bool { return leader.IsLeader(ctx) != nil })
		}
		cancel()
		require.NoError(t, <-done)
		noKeys(t, admin, "key")
	})
}

// leasesOf returns the leases at the server.
func leasesOf(t *testing.T, admin *clientv3.Client) map[clientv3.LeaseID]bool {
	t.Helper()
	resp, err := admin.Leases(limited(t))
	require.NoError(t, err)
	all := map[clientv3.LeaseID]bool{}
	for _, lease := range resp.Leases {
		all[lease.ID] = true
	}
	return all
}

// A campaign that fails is logged where the Locker logs.
func TestLeaderLogsRefusals(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	_, err := admin.Put(limited(t), "relock/lock/key/", "another program's")
	require.NoError(t, err)
	var log testkit.Log
	leader := relock.NewLeader(newLocker(t, c.client(t), etcdlock.WithLogger(log.Logger())), "key")
	ctx, cancel := context.WithCancel(limited(t))
	done := testkit.Async(t, func() error {
		return leader.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
	})
	soon(t, "it is logged", func() bool { return strings.Contains(log.String(), "relock: campaign failed") })
	require.Positive(t, log.Lines("relock: campaign failed", "key=key", "used by another program"))
	_, err = admin.Delete(limited(t), "relock/lock/key/")
	require.NoError(t, err)
	soon(t, "it leads", func() bool { return leader.IsLeader(ctx) == nil })
	cancel()
	require.NoError(t, <-done)
}
