package test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// room is what a lock guards.
type room struct {
	mu      sync.Mutex
	inside  relock.Hold
	token   int64 // the largest that was inside
	entries int
	mixUps  []mixUp
}

// mixUp is a hold that was valid beside a newer one, or after it, both given by
// their tokens.
type mixUp struct{ older, newer int64 }

// enter finds two holds that are valid together, and tokens that do not rise.
func (r *room) enter(hold relock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside != nil && r.inside.Err() == nil && hold.Err() == nil && r.inside.Err() == nil {
		one, other := r.inside.Fence(), hold.Fence()
		r.mixUps = append(r.mixUps, mixUp{min(one, other), max(one, other)})
	}
	if fence := hold.Fence(); hold.Err() == nil {
		if fence <= r.token {
			r.mixUps = append(r.mixUps, mixUp{fence, r.token})
		}
		r.token = max(r.token, fence)
	}
	r.inside = hold
	r.entries++
}

func (r *room) leave(hold relock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside == hold {
		r.inside = nil
	}
}

// wrong returns the mix-ups, except those of a hold whose lease was revoked: it
// cannot find that out before its next renewal.
func (r *room) wrong(revoked map[int64]bool) (wrong []mixUp) {
	for _, m := range r.mixUps {
		if m.older == m.newer || !revoked[m.older] {
			wrong = append(wrong, m)
		}
	}
	return wrong
}

// revocations are the leases that a test has revoked, with the revisions at
// which their keys were deleted.
type revocations map[clientv3.LeaseID]int64

// revoke reports whether the lease existed.
func (r revocations) revoke(t testing.TB, client *clientv3.Client, id clientv3.LeaseID) bool {
	resp, err := client.Revoke(limited(t), id)
	if err != nil {
		r[id] = anyRevision
		return false
	}
	r[id] = resp.Header.Revision
	return true
}

// anyRevision is that of a revocation that was not answered.
const anyRevision = -1

// holds returns the tokens of the holds that ended with the leases, from the
// history of etcd.
func (r revocations) holds(t testing.TB, client *clientv3.Client) map[int64]bool {
	t.Helper()
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	end, err := client.Put(ctx, "relock/end", "")
	require.NoError(t, err)
	ended := map[int64]bool{}
	for resp := range client.Watch(ctx, "relock/", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithPrevKV()) {
		require.NoError(t, resp.Err())
		for _, e := range resp.Events {
			if e.Kv.ModRevision >= end.Header.Revision {
				return ended
			}
			if e.Type == clientv3.EventTypeDelete && r.took(e) {
				ended[e.PrevKv.CreateRevision] = true
			}
		}
	}
	require.FailNow(t, "etcd did not return its history")
	return nil
}

func (r revocations) took(e *clientv3.Event) bool {
	at, ok := r[clientv3.LeaseID(e.PrevKv.Lease)]
	return ok && (at == anyRevision || at == e.Kv.ModRevision)
}

// A hold that is valid beside another one is excused if its lease was revoked,
// and for no other reason.
func TestRoomFindsMixUps(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin, r, revoked := c.client(t), &room{}, revocations{}
	enter := func() {
		r.enter(lock(t, newLocker(t, c.client(t), etcdlock.WithTTL(time.Minute)), "key"))
	}
	enter()
	leases, err := admin.Leases(limited(t))
	require.NoError(t, err)
	require.True(t, revoked.revoke(t, admin, leases.Leases[0].ID))
	enter()
	require.Len(t, r.mixUps, 1)
	require.Len(t, revoked.holds(t, admin), 1)
	require.Empty(t, r.wrong(revoked.holds(t, admin)))
	require.NotEmpty(t, r.wrong(nil))

	older := r.inside
	_, err = admin.Delete(limited(t), "relock/lock/key/")
	require.NoError(t, err)
	enter()
	r.enter(older)
	require.Len(t, r.wrong(revoked.holds(t, admin)), 3, "beside, beside and after")
}
