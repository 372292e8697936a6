package conformtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest/conform"
)

// Lease is short, since tests wait for its end, and long enough for a machine
// that stands still for a moment.
const Lease = 4 * time.Second

// KindOfLock is a kind of lock behind the interface that the suite knows.
type KindOfLock func(key string) Lock

// Lock is what the kinds of lock have in common.
type Lock interface {
	Acquire(ctx context.Context) (relock.Hold, error)
	TryAcquire(ctx context.Context) (relock.Hold, error)
}

// Lock implements [relock.Locker].
func (k KindOfLock) Lock(ctx context.Context, key string) (relock.Hold, error) {
	return k(key).Acquire(ctx)
}

// TryLock implements [relock.Locker].
func (k KindOfLock) TryLock(ctx context.Context, key string) (relock.Hold, error) {
	return k(key).TryAcquire(ctx)
}

// Kind is a kind of lock.
type Kind struct {
	Few       []string // the modes in which it runs where not all are needed
	reentrant bool
	refuses   bool
	locker    func(t *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker
}

// Kinds returns the kinds of lock with a client, by name.
func Kinds() map[string]Kind {
	return map[string]Kind{
		"Locker": {[]string{"unfair", "fair"}, false, false, func(t *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			l, err := relock.NewLocker(c, opts...)
			require.NoError(t, err)
			return l
		}},
		"RedisLock": {[]string{"fenced"}, false, true, func(_ *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return KindOfLock(func(key string) Lock { return relock.NewRedisLock(key, c, append(opts, relock.WithBlock())...) })
		}},
		"ReentrantLock": {[]string{"fair"}, true, false, func(_ *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return KindOfLock(func(key string) Lock { return relock.NewReentrantLock(key, c, append(opts, relock.WithBlock())...) })
		}},
		"RWLock": {[]string{"unfair"}, true, false, func(_ *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
			return KindOfLock(func(key string) Lock { return relock.NewRWLock(key, c, append(opts, relock.WithBlock())...) })
		}},
	}
}

// Modes returns what makes locks fair or fenced, by name.
func Modes() map[string][]relock.LockOption {
	return map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}, "fenced": {relock.WithFencing()}}
}

// Run runs the suite with locks of this kind at servers, in a mode.
func (k Kind) Run(t *testing.T, s Servers, mode string) {
	t.Helper()
	opts := append([]relock.LockOption{relock.WithWatchdog(Lease)}, Modes()[mode]...)
	conform.Run(t, conform.Backend{
		New:   func(t *testing.T) relock.Locker { return k.locker(t, s.Plain(t), opts...) },
		Lease: Lease, Fair: mode == "fair", Fenced: mode == "fenced", Reentrant: k.reentrant, Refuses: k.refuses,
		Faulty: func(t *testing.T) relock.Locker { return k.locker(t, s.ThroughFaults(t), opts...) },
		Break:  s.Break, Waiting: s.Waiting, Left: s.Left,
	})
}
