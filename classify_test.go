package relock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
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
)

func TestIsRetryableErr(t *testing.T) {
	t.Parallel()
	line := func(text string) error { return redis.Error(text) }
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"some error", errors.New("boom"), false},

		{"held by others", relock.ErrLockAcquiredByOthers, true},
		{"quorum", relock.ErrQuorum, true},
		{"replicas", relock.ErrReplicas, true},
		{"queue full", relock.ErrQueueFull, true},

		{"EOF", io.EOF, true},
		{"EOF in an answer", io.ErrUnexpectedEOF, true},
		{"no answer in time", os.ErrDeadlineExceeded, true},
		{"no answer in time, of ours", driver.ErrTimeout, true},
		{"late grant", lease.ErrLate, true},
		{"refused", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
		{"no such host", &net.DNSError{Err: "no such host", IsNotFound: true}, true},
		{"full pool", redis.ErrPoolExhausted, true},

		{"LOADING", line("LOADING Redis is loading the dataset in memory"), true},
		{"BUSY", line("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), true},
		{"READONLY", line("READONLY You can't write against a read only replica."), true},
		{"OOM", line("OOM command not allowed when used memory > 'maxmemory'."), true},
		{"MISCONF", line("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), true},
		{"NOREPLICAS", line("NOREPLICAS Not enough good replicas to write."), true},
		{"CLUSTERDOWN", line("CLUSTERDOWN The cluster is down"), true},
		{"TRYAGAIN", line("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{"MASTERDOWN", line("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), true},
		{"full server", line("ERR max number of clients reached"), true},
		{"full server of a cluster", line("ERR max number of clients + cluster connections reached"), true},
		{"code alone", line("LOADING"), true},

		{"canceled", context.Canceled, false},
		{"deadline", context.DeadlineExceeded, false},

		{"invalid", relock.ErrInvalid, false},
		{"closed", relock.ErrClosed, false},
		{"lost", relock.ErrLockLost, false},
		{"not held", relock.ErrNotHeld, false},
		{"not confirmed", relock.ErrUnconfirmed, false},
		{"denied", relock.ErrDenied, false},
		{"key conflict", relock.ErrKeyConflict, false},
		{"upgrade", relock.ErrUpgrade, false},
		{"max hold", relock.ErrMaxHold, false},
		{"forced", relock.ErrForced, false},
		{"not confirmed, though OOM", errs.Both(relock.ErrUnconfirmed, line("OOM command not allowed")), false},
		{"TLS alert", &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, false},

		{"NOAUTH", line("NOAUTH Authentication required."), false},
		{"WRONGPASS", line("WRONGPASS invalid username-password pair or user is disabled."), false},
		{"NOPERM", line("NOPERM this user has no permissions to run the 'set' command"), false},
		{"WRONGTYPE", line("WRONGTYPE Operation against a key holding the wrong kind of value"), false},
		{"NOSCRIPT", line("NOSCRIPT No matching script. Please use EVAL."), false},
		{"MOVED", line("MOVED 3999 127.0.0.1:6381"), false},
		{"BUSYKEY", line("BUSYKEY Target key name already exists."), false},
		{"BUSYGROUP", line("BUSYGROUP Consumer Group name already exists"), false},
		{"code as a later word", line("ERR LOADING is what I do"), false},
		{"ERR", line("ERR unknown command 'FOO'"), false},
		{"empty line", line(""), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, relock.IsRetryableErr(tt.err))
			if tt.err == nil {
				return
			}
			for _, wrapped := range []error{
				fmt.Errorf("job 7: %w", tt.err),
				relock.Wrap("lock", "k", tt.err),
				relock.Wrap("lock", "k", fmt.Errorf("again: %w", tt.err)),
				&relock.NodeError{Node: 2, Err: tt.err},
				errors.Join(errors.New("boom"), tt.err),
				fmt.Errorf("%w and %w", errors.New("boom"), tt.err),
			} {
				require.Equal(t, tt.want, relock.IsRetryableErr(wrapped), wrapped)
			}
			for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
				for _, ended := range []error{
					errs.Both(end, tt.err), errs.Both(tt.err, end), errors.Join(tt.err, end), relock.Wrap("lock", "k", errors.Join(tt.err, fmt.Errorf("x: %w", end))),
					&relock.NodeError{Err: errs.Both(fmt.Errorf("x: %w", end), tt.err)}, errors.Join(errors.Join(tt.err, tt.err), errors.Join(nil, end)),
				} {
					require.False(t, relock.IsRetryableErr(ended), ended)
				}
			}
			for _, permanent := range []error{relock.ErrClosed, relock.ErrInvalid, relock.ErrLockLost} {
				require.False(t, relock.IsRetryableErr(errors.Join(tt.err, permanent)))
			}
		})
	}
}

// Errors of real dials. Those of net that mean a time limit say that they are context.DeadlineExceeded, which no context of the caller's is.
func TestIsRetryableErrOfDials(t *testing.T) {
	t.Parallel()
	address := locktest.ClosedPort(t)
	_, refused := net.Dial("tcp", address)
	_, timeout := net.DialTimeout("tcp", address, 1)
	_, noSocket := net.Dial("unix", t.TempDir()+"/none")
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") }}
	_, noName := (&net.Dialer{Resolver: resolver}).Dial("tcp", "redis.invalid:6379")
	var dns *net.DNSError
	require.ErrorAs(t, noName, &dns)
	require.ErrorIs(t, timeout, context.DeadlineExceeded, "what is odd about it")
	for name, err := range map[string]error{"refused": refused, "timeout": timeout, "no socket": noSocket, "no name": noName} {
		require.Error(t, err, name)
		require.True(t, relock.IsRetryableErr(err), "%s: %v", name, err)
		require.True(t, relock.IsRetryableErr(relock.Wrap("lock", "k", driver.Explain(err))), "%s: %v", name, err)
	}

	for name, newClient := range map[string]func() (*relock.Client, error){
		"refused": func() (*relock.Client, error) { return relock.NewClient("tcp", address, "") },
		"timeout": func() (*relock.Client, error) { return relock.NewClient("tcp", address, "", relock.WithDialTimeout(1)) },
		"no name": func() (*relock.Client, error) {
			return relock.NewClient("tcp", "redis.invalid:6379", "", relock.WithDialTimeout(200*time.Millisecond))
		},
	} {
		c, err := newClient()
		require.NoError(t, err)
		for _, ctx := range []context.Context{t.Context(), locktest.Unbounded(t)} {
			err := relock.NewRedisLock("k", c).TryLock(ctx)
			require.Error(t, err, name)
			require.True(t, relock.IsRetryableErr(err), "%s: %v", name, err)
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, context.Canceled, name)
		}
		require.NoError(t, c.Close())
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	err := relock.Wrap("lock", "a\r\nb \x00\xff", errs.Both(relock.ErrDenied, errors.New("NOPERM no")))
	require.EqualError(t, err, `relock: lock "a\r\nb \x00\xff": permission denied by the server: NOPERM no`)
	require.EqualError(t, relock.Wrap("new client", "", relock.ErrInvalid), "relock: new client: invalid")
	require.EqualError(t, &relock.NodeError{Node: 3, Err: relock.ErrClosed}, "node 3: client closed")
	require.NoError(t, relock.Wrap("lock", "k", nil))
	seen := map[string]bool{}
	for i, err := range append(slices.Clone(lockspec.Permanent), lockspec.Passing...) {
		require.False(t, seen[err.Error()], "two reasons have one text: %v", err)
		seen[err.Error()] = true
		require.NotContains(t, err.Error(), "\n", strconv.Itoa(i))
	}
}
