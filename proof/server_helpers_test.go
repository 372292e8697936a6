package proof

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const serverPrefix = "server:"

// serverLock is either kind of lock.
type serverLock interface {
	Acquire(ctx context.Context) (relock.Hold, error)
	TryAcquire(ctx context.Context) (relock.Hold, error)
}

type serverKind struct {
	name string
	lock func(key string, c *relock.Client, opts ...relock.LockOption) serverLock
}

var serverKinds = []serverKind{
	{"plain", func(key string, c *relock.Client, opts ...relock.LockOption) serverLock {
		return relock.NewRedisLock(key, c, opts...)
	}},
	{"reentrant", func(key string, c *relock.Client, opts ...relock.LockOption) serverLock {
		return relock.NewReentrantLock(key, c, opts...)
	}},
}

// hold acquires the lock that is called like its kind.
func (k serverKind) hold(t testing.TB, c *relock.Client, opts ...relock.LockOption) relock.Hold {
	t.Helper()
	h, err := k.lock(k.name, c, opts...).TryAcquire(t.Context())
	require.NoError(t, err, k.name)
	return h
}

func serverClient(t testing.TB, network, address string, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return locktest.CloseLater(t)(relock.NewClient(network, address, "",
		append(opts, relock.WithKeyPrefix(serverPrefix))...))
}

func clientOf(t testing.TB, s *redistest.Server) *relock.Client {
	t.Helper()
	return serverClient(t, s.Network, s.Address)
}

func serverKey(key string) string { return fmt.Sprintf("%s{%s}", serverPrefix, key) }

// keyLeft is what the key has left; below 0 when there is none, or no expiry.
func keyLeft(t testing.TB, s *redistest.Server, key string) time.Duration {
	t.Helper()
	left, err := redis.Int64(s.Do(t, "PTTL", serverKey(key)), nil)
	require.NoError(t, err)
	require.NotEqual(t, int64(-1), left, "%q has no expiry", key)
	return time.Duration(left) * time.Millisecond
}

func keyThere(t testing.TB, s *redistest.Server, key string) bool {
	t.Helper()
	return s.Do(t, "EXISTS", serverKey(key)) == int64(1)
}

// content is the key's value, without its expiry.
func content(t testing.TB, s *redistest.Server, key string) string {
	t.Helper()
	return s.Content(t, serverKey(key))
}

// requireLost waits until the hold is found lost, which happens at its valid
// until at the latest.
func requireLost(t testing.TB, h relock.Hold) {
	t.Helper()
	limit := max(0, time.Until(h.ValidUntil())) + testkit.Patience // the exact time is not tested here
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), limit), relock.ErrLockLost, h.Key())
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.True(t, h.ValidUntil().IsZero())
}

// requireRenewed waits until each hold has been renewed once more.
func requireRenewed(t testing.TB, limit time.Duration, holds ...relock.Hold) {
	t.Helper()
	var before []time.Time
	for _, h := range holds {
		before = append(before, h.ValidUntil())
	}
	for i, h := range holds {
		testkit.Eventually(t, limit, func() bool { return h.ValidUntil().After(before[i]) }, h.Key()+" renewed")
	}
}

// scriptSources returns relock's scripts as it sends them, by the names of
// their files.
func scriptSources() map[string]string {
	sources := map[string]string{}
	for name, one := range map[string]*script.Script{
		"acquire": script.Acquire, "renew": script.Renew, "release": script.Release,
		"try": script.Try, "enqueue": script.Enqueue, "claim": script.Claim, "cancel": script.Cancel, "poll": script.Poll,
		"reentrant_acquire": script.ReentrantAcquire, "reentrant_enter": script.ReentrantEnter,
		"reentrant_renew":   script.ReentrantRenew,
		"reentrant_release": script.ReentrantRelease, "reentrant_transfer": script.ReentrantTransfer,
		"rw_try": script.RWTry, "rw_enqueue": script.RWEnqueue, "rw_claim": script.RWClaim, "rw_cancel": script.RWCancel,
		"rw_poll":  script.RWPoll,
		"rw_enter": script.RWEnter, "rw_renew": script.RWRenew, "rw_release": script.RWRelease,
	} {
		sources[name] = one.Source
	}
	return sources
}
