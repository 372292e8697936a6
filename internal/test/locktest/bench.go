package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Bench is a server with a client, and another client that shares its locks, as
// another process does.
type Bench struct {
	testing.TB
	Server        *redistest.Server
	Client, Other *relock.Client
	Home          func(key string) *redistest.Server // of a Cluster, else nil
}

// NewBench returns a bench of a parallel test, on the shared server.
func NewBench(t *testing.T, opts ...relock.ClientOption) *Bench {
	t.Helper()
	t.Parallel()
	return BenchOn(t, redistest.Shared(t), opts...)
}

// BenchOn returns a bench on this server.
func BenchOn(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *Bench {
	t.Helper()
	return BenchOf(t, s, NewTestClient(t, s, opts...))
}

// BenchOf returns a bench with this client of the server, which may be behind a
// proxy.
func BenchOf(t testing.TB, s *redistest.Server, c *relock.Client) *Bench {
	t.Helper()
	return &Bench{TB: t, Server: s, Client: c, Other: Sibling(t, s, c)}
}

// At returns the server of a lock.
func (b *Bench) At(key string) *redistest.Server {
	if b.Home != nil {
		return b.Home(key)
	}
	return b.Server
}

// Key returns the key of a lock in Redis.
func (b *Bench) Key(key string) string { return KeyOf(b.Client, key) }

// Exists returns how many of the locks have a key in Redis.
func (b *Bench) Exists(keys ...string) (n int64) {
	b.Helper()
	for _, key := range keys {
		n += b.At(key).Do(b, "EXISTS", b.Key(key)).(int64)
	}
	return n
}

// RequireFree checks that the locks have no keys.
func (b *Bench) RequireFree(keys ...string) {
	b.Helper()
	require.Zero(b, b.Exists(keys...))
}

// RequireHeld checks that the locks have keys with an expiry.
func (b *Bench) RequireHeld(keys ...string) {
	b.Helper()
	for _, key := range keys {
		RequireHeld(b, b.Server, b.Client, key)
	}
}

// AwaitFree waits until locks are free, for less than most leases.
func (b *Bench) AwaitFree(keys ...string) {
	b.Helper()
	EventuallyWithin(b, 10*time.Second, func() bool { return b.Exists(keys...) == 0 }, "free")
}

// Forget deletes locks, as a server does that loses its data.
func (b *Bench) Forget(keys ...string) {
	b.Helper()
	for _, key := range keys {
		b.Server.Do(b, "DEL", b.Key(key))
	}
}

// TTL returns what is left of the lock's expiry, see [PTTL].
func (b *Bench) TTL(key string) time.Duration {
	b.Helper()
	return PTTL(b, b.Server, b.Client, key)
}

// HasWaiter reports whether one call waits for the lock in Redis.
func (b *Bench) HasWaiter(key string) bool {
	b.Helper()
	return b.At(key).Do(b, "ZCARD", b.Key(key)+":q") == int64(1)
}

// AwaitWaiter waits until one call waits for the lock in Redis.
func (b *Bench) AwaitWaiter(key string) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool { return b.HasWaiter(key) }, "a waiter for "+key)
}

// Hold locks a key from the other client.
func (b *Bench) Hold(key string) relock.Hold {
	b.Helper()
	return Take(b, relock.NewRedisLock(key, b.Other, relock.WithBlock()).Acquire)
}

// RequireNothingLeft checks that no lock, queue or lease is left.
func (b *Bench) RequireNothingLeft(keys ...string) {
	b.Helper()
	RequireNoQueues(b, b.Server, b.Client, keys...)
}

// RequireLevels checks how many levels the server has of a reentrant lock.
func (b *Bench) RequireLevels(key string, n int) {
	b.Helper()
	RequireCount(b, b.Server, b.Client, key, n)
}

// Seldom makes a call poll so rarely that what it notices within
// testkit.Patience is no poll's.
const Seldom = time.Minute

// PolledSeldom returns the options of a lock that is polled so.
func PolledSeldom() []relock.LockOption {
	return []relock.LockOption{relock.WithPollInterval(Seldom), relock.WithWatchdog(4 * Seldom)}
}

// RequireEnds waits until a hold has ended, and checks the cause.
func RequireEnds(t testing.TB, h relock.Hold, cause error) {
	t.Helper()
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 10*time.Second), cause)
}

// RequireGranted waits until a blocking call has returned without an error.
func RequireGranted(t testing.TB, result <-chan error) {
	t.Helper()
	require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
}

// RenewGroup has a hold renewed.
func RenewGroup(t testing.TB, h relock.Hold) {
	t.Helper()
	until := h.ValidUntil()
	RenewNow(h)
	testkit.Eventually(t, testkit.Patience, func() bool { return h.ValidUntil().After(until) }, "renewed")
}
