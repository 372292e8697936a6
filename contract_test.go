package relock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
)

// The public contract: this file compiles only while it stands. Add to it, change nothing in it.
var (
	_ func(network, address, password string, opts ...relock.ClientOption) (*relock.Client, error) = relock.NewClient
	_ func(rawURL string, opts ...relock.ClientOption) (*relock.Client, error)                     = relock.NewClientURL
	_ func(pool *redis.Pool, opts ...relock.ClientOption) (*relock.Client, error)                  = relock.NewClientPool
	_ func(source string) *relock.Script                                                           = relock.NewScript

	_ interface {
		SetNEX(ctx context.Context, key, value string, expiry time.Duration) (bool, error)
		Eval(ctx context.Context, script *relock.Script, keys []string, args ...any) (any, error)
		Ping(ctx context.Context) error
		Inspect(ctx context.Context, key string) (relock.Info, error)
		List(ctx context.Context, pattern string) iter.Seq2[relock.Info, error]
		ForceUnlock(ctx context.Context, key, reason string) error
		Stats() relock.Stats
		Close() error
	} = (*relock.Client)(nil)

	_ func(key string, client *relock.Client, opts ...relock.LockOption) *relock.RedisLock     = relock.NewRedisLock
	_ func(key string, client *relock.Client, opts ...relock.LockOption) *relock.ReentrantLock = relock.NewReentrantLock
	_ func(key string, client *relock.Client, opts ...relock.LockOption) *relock.RWLock        = relock.NewRWLock
	_ func(keys []string, client *relock.Client, opts ...relock.LockOption) *relock.MultiLock  = relock.NewMultiLock
	_ func(key string, clients []*relock.Client, opts ...relock.LockOption) *relock.RedLock    = relock.NewRedLock

	_ func(client *relock.Client, opts ...relock.LockOption) (relock.Locker, error)                = relock.NewLocker
	_ func(ctx context.Context, l relock.Locker, key string, fn func(context.Context) error) error = relock.Do

	_ func(ctx context.Context, key string) (relock.Hold, bool) = relock.HoldFromContext
	_ func(ctx context.Context, id string) context.Context      = relock.ContextWithOwner
	_ func(err error) bool                                      = relock.IsRetryableErr
	_ func(err error) relock.Outcome                            = relock.OutcomeOf
	_ error                                                     = (*relock.Error)(nil)
	_ error                                                     = (*relock.NodeError)(nil)
	_ interface{ Unwrap() error }                               = (*relock.Error)(nil)
	_ interface{ Unwrap() error }                               = (*relock.NodeError)(nil)
	_                                                           = relock.Error{Op: "", Key: "", Err: nil}
	_                                                           = relock.NodeError{Node: 0, Err: nil}
	_ relock.ClientOption                                       = relock.LockOption(nil)
)

type mutex interface {
	Lock(ctx context.Context) error
	TryLock(ctx context.Context) error
	Unlock(ctx context.Context) error
	Do(ctx context.Context, fn func(context.Context) error) error
	TryDo(ctx context.Context, fn func(context.Context) error) error
}

type kind interface {
	relock.Mutex
	Acquire(ctx context.Context) (relock.Hold, error)
	TryAcquire(ctx context.Context) (relock.Hold, error)
	Validate() error
}

type readWriter interface {
	kind
	RLock(ctx context.Context) error
	TryRLock(ctx context.Context) error
	RUnlock(ctx context.Context) error
	RAcquire(ctx context.Context) (relock.Hold, error)
	TryRAcquire(ctx context.Context) (relock.Hold, error)
	RLocker() relock.Mutex
}

type locker interface {
	Lock(ctx context.Context, key string) (relock.Hold, error)
	TryLock(ctx context.Context, key string) (relock.Hold, error)
}

type hold interface {
	Key() string
	Fence() int64
	Context() context.Context
	Err() error
	ValidUntil() time.Time
	Remaining() time.Duration
	Extend(ctx context.Context, d time.Duration) error
	Unlock(ctx context.Context) error
}

var (
	_ mutex         = relock.Mutex(nil)
	_ relock.Mutex  = mutex(nil)
	_ hold          = relock.Hold(nil)
	_ locker        = relock.Locker(nil)
	_ relock.Locker = locker(nil)
	_ relock.Hold   = hold(nil)
	_ kind          = (*relock.RedisLock)(nil)
	_ kind          = (*relock.ReentrantLock)(nil)
	_ kind          = (*relock.MultiLock)(nil)
	_ kind          = (*relock.RedLock)(nil)
	_ readWriter    = (*relock.RWLock)(nil)
	_ interface {
		HoldCount(ctx context.Context) int
	} = (*relock.ReentrantLock)(nil)

	_ = []relock.ClientOption{
		relock.WithMaxIdle(1), relock.WithMaxActive(1), relock.WithIdleTimeout(time.Second), relock.WithWaitMode(),
		relock.WithUsername(""), relock.WithDatabase(0), relock.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12}),
		relock.WithDialTimeout(time.Second), relock.WithCommandTimeout(time.Second), relock.WithKeyPrefix(""),
		relock.WithLogger(slog.Default()), relock.WithReleaseOnClose(), relock.WithObserver(relock.Observer{}),
	}
	_ = []relock.LockOption{
		relock.WithBlock(), relock.WithBlockTimeout(time.Second), relock.WithPollInterval(time.Second), relock.WithExpiry(time.Second),
		relock.WithWatchdog(time.Second), relock.WithMaxHold(time.Second), relock.WithMinHold(time.Second),
		relock.WithLabel(""), relock.WithFair(), relock.WithFencing(), relock.WithQueueLimit(1), relock.WithReplicas(1, time.Second),
		relock.WithMaxLease(time.Second),
	}
	_ = relock.Info{Key: "", State: relock.StateFree, Kind: "", Fair: false, Holder: &relock.Holder{}, Readers: []relock.Holder{}, Remaining: 0, Fence: 0, Waiting: 0, Waiters: []relock.Waiter{}}
	_ = relock.Holder{Client: "", Host: "", PID: 0, Label: "", Since: time.Time{}, Owner: "", Count: 0}
	_ = relock.Waiter{Client: "", Age: 0, Kind: "", Fair: false}
	_ = relock.Info{Remaining: relock.NoExpiry}
	_ = []relock.State{relock.StateFree, relock.StateHeld, relock.StateReserved, relock.StateKept}
	_ = relock.Observer{
		LockStart: func(context.Context, relock.LockStart) {},
		LockDone:  func(context.Context, relock.LockDone) {},
		HoldDone:  func(context.Context, relock.HoldDone) {},
		RenewDone: func(context.Context, relock.RenewDone) {},
	}

	reasons = []error{
		relock.ErrLockAcquiredByOthers, relock.ErrNotHeld, relock.ErrLockLost, relock.ErrInvalid, relock.ErrClosed, relock.ErrQuorum,
		relock.ErrKeyConflict, relock.ErrUpgrade, relock.ErrQueueFull, relock.ErrReplicas, relock.ErrMaxHold, relock.ErrForced,
		relock.ErrDenied, relock.ErrUnconfirmed,
	}
)

// Each reason has one meaning: none matches another.
func TestReasonsAreDistinct(t *testing.T) {
	for i, a := range reasons {
		for j, b := range reasons {
			if errors.Is(a, b) != (i == j) {
				t.Errorf("errors.Is(%v, %v) = %v", a, b, i != j)
			}
		}
	}
}
