package relock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"os"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// retryable are errors that may not come again.
var retryable = []error{
	relock.ErrLockAcquiredByOthers, relock.ErrQuorum, relock.ErrReplicas, relock.ErrQueueFull,

	io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, driver.ErrTimeout, lease.ErrLate, redis.ErrPoolExhausted,
	&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
	&net.OpError{Op: "read", Err: syscall.ECONNRESET},
	&net.DNSError{Err: "no such host", IsNotFound: true},

	redis.Error("LOADING Redis is loading the dataset in memory"),
	redis.Error("LOADING"),
	redis.Error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
	redis.Error("READONLY You can't write against a read only replica."),
	redis.Error("OOM command not allowed when used memory > 'maxmemory'."),
	redis.Error("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."),
	redis.Error("NOREPLICAS Not enough good replicas to write."),
	redis.Error("CLUSTERDOWN The cluster is down"),
	redis.Error("TRYAGAIN Multiple keys request during rehashing of slot"),
	redis.Error("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
	redis.Error("ERR max number of clients reached"),
	redis.Error("ERR max number of clients + cluster connections reached"),
}

// permanent are errors that come again.
var permanent = []error{
	context.Canceled, context.DeadlineExceeded, errors.New("boom"),

	relock.ErrInvalid, relock.ErrClosed, relock.ErrLockLost, relock.ErrNotHeld, relock.ErrUnconfirmed, relock.ErrDenied,
	relock.ErrKeyConflict, relock.ErrUpgrade, relock.ErrMaxHold, relock.ErrForced,
	errs.Both(relock.ErrUnconfirmed, redis.Error("OOM command not allowed")),
	&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")},

	redis.Error("NOAUTH Authentication required."),
	redis.Error("WRONGPASS invalid username-password pair or user is disabled."),
	redis.Error("NOPERM this user has no permissions to run the 'set' command"),
	redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value"),
	redis.Error("NOSCRIPT No matching script. Please use EVAL."),
	redis.Error("MOVED 3999 127.0.0.1:6381"),
	redis.Error("BUSYKEY Target key name already exists."),
	redis.Error("BUSYGROUP Consumer Group name already exists"),
	redis.Error("ERR LOADING is what I do"), // the code is a later word
	redis.Error("ERR unknown command 'FOO'"),
	redis.Error(""),
}

func locking(err error) error { return &relock.Error{Op: "lock", Key: "k", Err: err} }

func TestIsRetryableErr(t *testing.T) {
	t.Parallel()
	require.False(t, relock.IsRetryableErr(nil))
	for want, all := range map[bool][]error{true: retryable, false: permanent} {
		for _, err := range all {
			for _, wrapped := range []error{
				err, fmt.Errorf("job 7: %w", err), locking(err), locking(fmt.Errorf("again: %w", err)),
				&relock.NodeError{Node: 2, Err: err}, errors.Join(errors.New("boom"), err), fmt.Errorf("%w and %w", errors.New("boom"), err),
			} {
				require.Equal(t, want, relock.IsRetryableErr(wrapped), "%#v", wrapped)
			}
			for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
				for _, ended := range []error{
					errs.Both(end, err), errs.Both(err, end), errors.Join(err, end), locking(errors.Join(err, fmt.Errorf("x: %w", end))),
					&relock.NodeError{Err: errs.Both(fmt.Errorf("x: %w", end), err)}, errors.Join(errors.Join(err, err), errors.Join(nil, end)),
				} {
					require.False(t, relock.IsRetryableErr(ended), "%#v", ended)
				}
			}
			for _, reason := range []error{relock.ErrClosed, relock.ErrInvalid, relock.ErrLockLost} {
				require.False(t, relock.IsRetryableErr(errors.Join(err, reason)))
			}
		}
	}
}

// A time limit of net matches context.DeadlineExceeded, although no context of
// the caller has expired.
func TestIsRetryableErrOfDials(t *testing.T) {
	t.Parallel()
	address := locktest.ClosedPort(t)
	_, refused := net.Dial("tcp", address)
	_, timeout := net.DialTimeout("tcp", address, 1)
	_, noSocket := net.Dial("unix", t.TempDir()+"/none")
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") }}
	_, noName := (&net.Dialer{Resolver: resolver}).Dial("tcp", "redis.invalid:6379")
	require.ErrorIs(t, timeout, context.DeadlineExceeded)
	for name, err := range map[string]error{"refused": refused, "timeout": timeout, "no socket": noSocket, "no name": noName} {
		require.Error(t, err, name)
		require.True(t, relock.IsRetryableErr(err), "%s: %v", name, err)
		require.True(t, relock.IsRetryableErr(locking(driver.Explain(err))), "%s: %v", name, err)
	}

	for name, tt := range map[string]struct {
		address string
		limit   time.Duration
	}{
		"refused": {address, time.Second}, "timeout": {address, 1}, "no name": {"redis.invalid:6379", 200 * time.Millisecond},
	} {
		c, err := relock.NewClient("tcp", tt.address, "", relock.WithDialTimeout(tt.limit))
		require.NoError(t, err)
		for _, ctx := range []context.Context{t.Context(), locktest.Unbounded(t)} {
			err := relock.NewRedisLock("k", c).TryLock(ctx)
			require.True(t, relock.IsRetryableErr(err), "%s: %v", name, err)
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, context.Canceled, name)
		}
		require.NoError(t, c.Close())
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	denied := &relock.Error{Op: "lock", Key: "a\r\nb \x00\xff", Err: errs.Both(relock.ErrDenied, errors.New("NOPERM no"))}
	require.EqualError(t, denied, `relock: lock "a\r\nb \x00\xff": permission denied by the server: NOPERM no`)
	require.EqualError(t, &relock.Error{Op: "new client", Err: relock.ErrInvalid}, "relock: new client: invalid")
	require.EqualError(t, &relock.NodeError{Node: 3, Err: relock.ErrClosed}, "node 3: client closed")
	seen := map[string]bool{}
	for _, err := range append(slices.Clone(lockspec.Permanent), lockspec.Passing...) {
		require.False(t, seen[err.Error()], "two reasons have one text: %v", err)
		seen[err.Error()] = true
		require.NotContains(t, err.Error(), "\n")
	}
}

// The public contract: this file compiles only while it stands. Add to it,
// change nothing in it.
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
	t.Parallel()
	for i, a := range reasons {
		for j, b := range reasons {
			require.Equal(t, i == j, errors.Is(a, b), "errors.Is(%v, %v)", a, b)
		}
	}
}

// The engine's holds have methods that users must not see.
func TestHoldsHaveTheMethodsOfHold(t *testing.T) {
	t.Parallel()
	h, err := relock.NewRedisLock("k", locktest.NewTestClient(t, redistest.Shared(t))).Acquire(t.Context())
	require.NoError(t, err)
	public, own := reflect.TypeFor[relock.Hold](), reflect.TypeOf(h)
	for i := range own.NumMethod() {
		if name := own.Method(i).Name; name != "String" {
			_, ok := public.MethodByName(name)
			require.True(t, ok, "%s is no method of Hold", name)
		}
	}
}
