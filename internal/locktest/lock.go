package locktest

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
)

func Nothing(context.Context) error { return nil }

// AnyLock is what every kind of lock has.
type AnyLock interface {
	relock.Mutex
	Acquire(context.Context) (relock.Hold, error)
	TryAcquire(context.Context) (relock.Hold, error)
	Validate() error
}

// Kinds makes each kind of lock for tests of what they share. WithOwner is left out where a kind has no owner.
var Kinds = map[string]func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock{
	"RedisLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
		var usable []relock.LockOption
		for _, o := range opts {
			if relock.NewRedisLock(key, c, o).Validate() == nil {
				usable = append(usable, o)
			}
		}
		return relock.NewRedisLock(key, c, usable...)
	},
	"ReentrantLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
		return relock.NewReentrantLock(key, c, opts...)
	},
}

// CommandCount is how many commands the server has processed, this one not among them. The watchdog may add some.
func CommandCount(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	return scripttest.InfoField(t, s, "stats", "total_commands_processed")
}
