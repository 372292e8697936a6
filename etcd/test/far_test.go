package test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The limits of requests follow the link, as far as the TTL allows: a lock is
// acquired, renewed and released over a link that takes longer than a request
// may take at first.
func TestLimitsFollowTheLink(t *testing.T) {
	t.Parallel()
	together(t, map[string]struct{ ttl, late, hold time.Duration }{
		"a request":            {ttl: 30 * time.Second, late: 3200 * time.Millisecond},
		"an attempt to unlock": {ttl: brief, late: 700 * time.Millisecond},
		"a renewal":            {ttl: brief, late: 1100 * time.Millisecond, hold: 2 * brief},
	}, func(t *testing.T, tt struct{ ttl, late, hold time.Duration }) {
		c := newCluster(t, 1)
		p := newProxy(t, c.endpoints[0])
		p.delay(tt.late)
		l := newLocker(t, c.client(t, p.address), etcdlock.WithTTL(tt.ttl))
		h := lock(t, l, "key")
		select { // the hold outlasts its first lease
		case <-h.Context().Done():
			t.Errorf("lost: %v", h.Err())
		case <-time.After(tt.hold):
		}
		require.NoError(t, h.Unlock(t.Context()))
		noKeys(t, c.client(t), "key")
		require.NoError(t, l.Close())
	})
}

// Close waits longer than a second for a server that is far away.
func TestCloseOfAFarServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := newProxy(t, c.endpoints[0])
	p.delay(1200 * time.Millisecond)
	l := newLocker(t, c.client(t, p.address))
	lock(t, l, "key")
	require.NoError(t, l.Close())
	noKeys(t, c.client(t), "key")
}

// Attempts that had less time than a request do not lengthen the next one. A
// call without a deadline fails soon if the only server is silent, although an
// Unlock has tried several times before.
func TestShortAttemptsLengthenNoRequest(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second // of the first requests
	c := newCluster(t, 1)
	p := newProxy(t, c.endpoints[0])
	l := newLocker(t, c.client(t, p.address), etcdlock.WithTTL(90*time.Second))
	h := lock(t, l, "key")
	p.silence()
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrUnconfirmed)
	s, asked := testkit.NewStopwatch(t), time.Now()
	_, err := l.TryLock(context.Background(), "other")
	require.Error(t, err)
	s.Check(time.Since(asked), 2*limit)
	p.cut()
}
