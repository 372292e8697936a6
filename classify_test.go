package relock_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
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
	redis.Error("ERR LOADING is what I do"), // no server sends this line: it may be a proxy's
	redis.Error("ERR Connection refused"),
	redis.Error("upstream failure"),
	redis.Error(""),
	&net.OpError{Op: "remote error", Err: tls.AlertError(45)}, // an expired certificate
	&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
}

// permanent are errors that come again.
var permanent = []error{
	context.Canceled, context.DeadlineExceeded, errors.New("boom"),

	relock.ErrInvalid, relock.ErrClosed, relock.ErrLockLost, relock.ErrNotHeld, relock.ErrUnconfirmed, relock.ErrDenied,
	relock.ErrKeyConflict, relock.ErrUpgrade, relock.ErrMaxHold, relock.ErrForced,
	errs.Join(relock.ErrUnconfirmed, redis.Error("OOM command not allowed")),
	&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")},

	redis.Error("NOAUTH Authentication required."),
	redis.Error("WRONGPASS invalid username-password pair or user is disabled."),
	redis.Error("NOPERM this user has no permissions to run the 'set' command"),
	redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value"),
	redis.Error("NOSCRIPT No matching script. Please use EVAL."),
	redis.Error("MOVED 3999 127.0.0.1:6381"),
	redis.Error("BUSYKEY Target key name already exists."),
	redis.Error("BUSYGROUP Consumer Group name already exists"),
	redis.Error("ERR unknown command 'FOO'"),
	redis.Error("ERR relock: acquire: bad arguments"),
	redis.Error("DENIED Redis is running in protected mode"),
	&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
	&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}}},
}

func locking(err error) error { return &relock.Error{Op: "lock", Key: "k", Err: err} }

func TestIsRetryableErr(t *testing.T) {
	t.Parallel()
	require.False(t, relock.IsRetryableErr(nil))
	for want, all := range map[bool][]error{true: retryable, false: permanent} {
		for _, err := range all {
			for _, wrapped := range []error{
				err, fmt.Errorf("job 7: %w", err), locking(err), locking(fmt.Errorf("again: %w", err)),
				&relock.NodeError{Node: 2, Err: err}, errors.Join(errors.New("boom"), err),
				fmt.Errorf("%w and %w", errors.New("boom"), err),
			} {
				require.Equal(t, want, relock.IsRetryableErr(wrapped), "%#v", wrapped)
			}
			for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
				for _, ended := range []error{
					errs.Join(end, err), errs.Join(err, end), errors.Join(err, end),
					locking(errors.Join(err, fmt.Errorf("x: %w", end))),
					&relock.NodeError{Err: errs.Join(fmt.Errorf("x: %w", end), err)},
					errors.Join(errors.Join(err, err), errors.Join(nil, end)),
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
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no network")
	}}
	_, noName := (&net.Dialer{Resolver: resolver}).Dial("tcp", "redis.invalid:6379")
	require.ErrorIs(t, timeout, context.DeadlineExceeded)
	for name, err := range map[string]error{
		"refused": refused, "timeout": timeout, "no socket": noSocket, "no name": noName,
	} {
		require.Error(t, err, name)
		require.True(t, relock.IsRetryableErr(err), "%s: %v", name, err)
	}

	for name, tt := range map[string]struct {
		address string
		limit   time.Duration
	}{
		"refused": {address, time.Second}, "timeout": {address, 1}, "no name": {"redis.invalid:6379", 200 * time.Millisecond},
	} {
		c := locktest.CloseLater(t)(relock.NewClient("tcp", tt.address, "", relock.WithDialTimeout(tt.limit)))
		for _, ctx := range []context.Context{t.Context(), locktest.Unbounded(t)} {
			err := relock.NewRedisLock("k", c).TryLock(ctx)
			require.True(t, relock.IsRetryableErr(err), "%s: %v", name, err)
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, context.Canceled, name)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	denied := &relock.Error{Op: "lock", Key: "a\r\nb \x00\xff", Err: errs.Join(relock.ErrDenied, errors.New("NOPERM no"))}
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

// reasons are those that callers test for.
var reasons = []error{
	relock.ErrLockAcquiredByOthers, relock.ErrNotHeld, relock.ErrLockLost, relock.ErrInvalid, relock.ErrClosed,
	relock.ErrQuorum,
	relock.ErrKeyConflict, relock.ErrUpgrade, relock.ErrQueueFull, relock.ErrReplicas, relock.ErrMaxHold, relock.ErrForced,
	relock.ErrDenied, relock.ErrUnconfirmed,
}

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
	h := locktest.Take(t, relock.NewRedisLock("k", locktest.NewTestClient(t, redistest.Shared(t))).Acquire)
	public, own := reflect.TypeFor[relock.Hold](), reflect.TypeOf(h)
	for i := range own.NumMethod() {
		if name := own.Method(i).Name; name != "String" {
			_, ok := public.MethodByName(name)
			require.True(t, ok, "%s is no method of Hold", name)
		}
	}
}
