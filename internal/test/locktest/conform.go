package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest/conform"
)

// ConformLease is short, since tests wait for its end, and long enough for a
// machine that stands still for a moment.
const ConformLease = 4 * time.Second

// LockerOf is a kind of lock behind the interface that the suite knows.
type LockerOf func(key string) Acquirer

// Acquirer is what the kinds of lock have in common.
type Acquirer interface {
	Acquire(ctx context.Context) (relock.Hold, error)
	TryAcquire(ctx context.Context) (relock.Hold, error)
}

// Lock implements [relock.Locker].
func (k LockerOf) Lock(ctx context.Context, key string) (relock.Hold, error) {
	return k(key).Acquire(ctx)
}

// TryLock implements [relock.Locker].
func (k LockerOf) TryLock(ctx context.Context, key string) (relock.Hold, error) {
	return k(key).TryAcquire(ctx)
}

// ConformKind is a kind of lock.
type ConformKind struct {
	Few       []string // the modes in which it runs where not all are needed
	reentrant bool
	refuses   bool
	locker    func(t *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker
}

// ConformKinds returns the kinds of lock with a client, by name.
func ConformKinds() map[string]ConformKind {
	return map[string]ConformKind{
		"Locker": {[]string{
			"unfair", "fair",
		}, false, false, func(t *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return NewLocker(t, c, opts...)
		}},
		"RedisLock": {[]string{
			"fenced",
		}, false, true, func(_ *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return LockerOf(func(key string) Acquirer {
				return relock.NewRedisLock(key, c, append(opts, relock.WithBlock())...)
			})
		}},
		"ReentrantLock": {[]string{
			"fair",
		}, true, false, func(_ *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return LockerOf(func(key string) Acquirer {
				return relock.NewReentrantLock(key, c, append(opts, relock.WithBlock())...)
			})
		}},
		"RWLock": {[]string{
			"unfair",
		}, true, false, func(_ *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return LockerOf(func(key string) Acquirer { return relock.NewRWLock(key, c, append(opts, relock.WithBlock())...) })
		}},
	}
}

// ConformModes returns what makes locks fair or fenced, by name.
func ConformModes() map[string][]relock.LockOption {
	return map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}, "fenced": {relock.WithFencing()}}
}

// Run runs the suite with locks of this kind at servers, in a mode.
func (k ConformKind) Run(t *testing.T, s ConformServers, mode string) {
	t.Helper()
	opts := append([]relock.LockOption{relock.WithWatchdog(ConformLease)}, ConformModes()[mode]...)
	conform.Run(t, conform.Backend{
		New:   func(t *testing.T) relock.Locker { return k.locker(t, s.Plain(t), opts...) },
		Lease: ConformLease, Fair: mode == "fair", Fenced: mode == "fenced", Reentrant: k.reentrant, Refuses: k.refuses,
		Faulty: func(t *testing.T) relock.Locker { return k.locker(t, s.ThroughFaults(t), opts...) },
		Break:  s.Break, Waiting: s.Waiting, Left: s.Left,
	})
}
