package relock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
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

		{"held by others", ErrLockAcquiredByOthers, true},
		{"quorum", ErrQuorum, true},
		{"replicas", ErrReplicas, true},
		{"queue full", ErrQueueFull, true},

		{"EOF", io.EOF, true},
		{"EOF in an answer", io.ErrUnexpectedEOF, true},
		{"no answer in time", os.ErrDeadlineExceeded, true},
		{"no answer in time, of ours", errTimeout, true},
		{"late grant", errLate, true},
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
		{"code alone", line("LOADING"), true},

		{"canceled", context.Canceled, false},
		{"deadline", context.DeadlineExceeded, false},

		{"invalid", ErrInvalid, false},
		{"closed", ErrClosed, false},
		{"lost", ErrLockLost, false},
		{"not held", ErrNotHeld, false},
		{"not confirmed", ErrUnconfirmed, false},
		{"denied", ErrDenied, false},
		{"key conflict", ErrKeyConflict, false},
		{"upgrade", ErrUpgrade, false},
		{"max hold", ErrMaxHold, false},
		{"forced", ErrForced, false},
		{"not confirmed, though OOM", both(ErrUnconfirmed, line("OOM command not allowed")), false},
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
			require.Equal(t, tt.want, IsRetryableErr(tt.err))
			if tt.err == nil {
				return
			}
			for _, wrapped := range []error{
				fmt.Errorf("job 7: %w", tt.err),
				wrap("lock", "k", tt.err),
				wrap("lock", "k", fmt.Errorf("again: %w", tt.err)),
				&NodeError{Node: 2, Err: tt.err},
				errors.Join(errors.New("boom"), tt.err),
				fmt.Errorf("%w and %w", errors.New("boom"), tt.err),
			} {
				require.Equal(t, tt.want, IsRetryableErr(wrapped), wrapped)
			}
			for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
				for _, ended := range []error{
					both(end, tt.err), both(tt.err, end), errors.Join(tt.err, end), wrap("lock", "k", errors.Join(tt.err, fmt.Errorf("x: %w", end))),
					&NodeError{Err: both(fmt.Errorf("x: %w", end), tt.err)}, errors.Join(errors.Join(tt.err, tt.err), errors.Join(nil, end)),
				} {
					require.False(t, IsRetryableErr(ended), ended)
				}
			}
			for _, permanent := range []error{ErrClosed, ErrInvalid, ErrLockLost} {
				require.False(t, IsRetryableErr(errors.Join(tt.err, permanent)))
			}
		})
	}
}

// Errors of real dials. Those of net that mean a time limit say that they are context.DeadlineExceeded, which no context of the caller's is.
func TestIsRetryableErrOfDials(t *testing.T) {
	t.Parallel()
	address := closedPort(t)
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
		require.True(t, IsRetryableErr(err), "%s: %v", name, err)
		require.True(t, IsRetryableErr(wrap("lock", "k", explain(err))), "%s: %v", name, err)
	}

	for name, newClient := range map[string]func() (*Client, error){
		"refused": func() (*Client, error) { return NewClient("tcp", address, "") },
		"timeout": func() (*Client, error) { return NewClient("tcp", address, "", WithDialTimeout(1)) },
		"no name": func() (*Client, error) {
			return NewClient("tcp", "redis.invalid:6379", "", WithDialTimeout(200*time.Millisecond))
		},
	} {
		c, err := newClient()
		require.NoError(t, err)
		for _, ctx := range []context.Context{t.Context(), unbounded(t)} {
			err := NewRedisLock("k", c).TryLock(ctx)
			require.Error(t, err, name)
			require.True(t, IsRetryableErr(err), "%s: %v", name, err)
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, context.Canceled, name)
		}
		require.NoError(t, c.Close())
	}
}

// Servers before 7.0 put the error of a command in a script behind the name of the script, once or twice.
func TestErrorLinesOfOlderServers(t *testing.T) {
	t.Parallel()
	const (
		call  = "ERR Error running script (call to f_1028a5dba704e1d8a01fd96efeba25bb78f62df2): "
		sha   = " script: 1028a5dba704e1d8a01fd96efeba25bb78f62df2, on @user_script:4."
		alien = "-WRONGTYPE Operation against a key holding the wrong kind of value"
	)
	for _, tt := range []struct {
		line              string
		code              string
		retryable, denied bool
	}{
		{line: call + "@user_script:5: -OOM command not allowed when used memory > 'maxmemory'.", code: "OOM", retryable: true},
		{line: call + "@user_script:5: @user_script: 5: -OOM command not allowed when used memory > 'maxmemory'.", code: "OOM", retryable: true},
		{line: call + "@user_script:4: @user_script: 4: -READONLY You can't write against a read only replica. ", code: "READONLY", retryable: true},
		{line: call + "@user_script:4: @user_script: 4: -MISCONF Redis is configured to save RDB snapshots", code: "MISCONF", retryable: true},
		{line: call + "@user_script:4: @user_script: 4: -NOREPLICAS Not enough good replicas to write.", code: "NOREPLICAS", retryable: true},
		{line: call + "@user_script:4: TRYAGAIN Multiple keys request during rehashing of slot", code: "TRYAGAIN", retryable: true},
		{line: call + "@user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value", code: "WRONGTYPE"},
		{line: call + "@user_script:1: " + alien, code: "WRONGTYPE"},
		{line: call + "@user_script:7: @user_script: 7: The user executing the script can't run this command or subcommand", code: "The", denied: true},
		{line: call + "@user_script:7: @user_script: 7: -NOPERM this user has no permissions", code: "NOPERM", denied: true},
		{line: call + "@user_script:3: user_script:3: attempt to index a nil value", code: "user_script:3:"},
		{line: "OOM command not allowed when used memory > 'maxmemory'." + sha, code: "OOM", retryable: true},
		{line: "READONLY You can't write against a read only replica." + sha, code: "READONLY", retryable: true},
		{line: "WRONGTYPE Operation against a key holding the wrong kind of value" + sha, code: "WRONGTYPE"},
		{line: "ERR The user executing the script can't run this command or subcommand" + sha, code: "ERR", denied: true},
		{line: "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" + sha, code: "ERR", denied: true},
		{line: "ERR The user executing the script can't publish to the channel mentioned in the command" + sha, code: "ERR", denied: true},
		{line: "NOPERM User app has no permissions to run the 'pexpire' command" + sha, code: "NOPERM", denied: true},
		{line: "ERR invalid password", code: "ERR", denied: true},
		{line: "ERR Client sent AUTH, but no password is set", code: "ERR", denied: true},
		{
			line: "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
			code: "ERR", denied: true,
		},
		{line: "WRONGPASS invalid username-password pair or user is disabled.", code: "WRONGPASS", denied: true},
		{line: "NOAUTH Authentication required.", code: "NOAUTH", denied: true},
		{line: "ERR unknown command 'EVALSHA', with args beginning with: 'LOADING' '1' ", code: "ERR"},
		{line: "ERR unknown command `EVALSHA`, with args beginning with: `@user_script:5: -OOM`, ", code: "ERR"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			require.Equal(t, tt.code, code(redis.Error(tt.line)))
			err := wrap("lock", "k", explain(redis.Error(tt.line)))
			require.Equal(t, tt.retryable, IsRetryableErr(err))
			require.Equal(t, tt.denied, errors.Is(err, ErrDenied))
			require.NotContains(t, err.Error(), "with args")
			var line redis.Error
			require.ErrorAs(t, err, &line, "the server's own words are there")
		})
	}
	require.True(t, isNoScript(wrap("lock", "k", redis.Error("NOSCRIPT No matching script. Please use EVAL."))))
	require.False(t, isNoScript(redis.Error("ERR NOSCRIPT")))
	require.False(t, isNoScript(nil))
}

// trouble is a state of a server that passes.
type trouble struct {
	code        string
	args        []string
	start       func(*testing.T, *redistest.Server)
	end         func(*testing.T, *redistest.Server)
	unconfirmed bool // releases are refused meanwhile
}

func configSet(name, value string) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, s *redistest.Server) { s.Do(t, "CONFIG", "SET", name, value) }
}

func troubles(t *testing.T) []trouble {
	dir := t.TempDir()
	return []trouble{
		{code: "OOM", start: configSet("maxmemory", "1"), end: configSet("maxmemory", "0")},
		{code: "NOREPLICAS", start: configSet("min-replicas-to-write", "1"), end: configSet("min-replicas-to-write", "0"), unconfirmed: true},
		{
			code: "READONLY", unconfirmed: true,
			start: func(t *testing.T, s *redistest.Server) {
				_, port, err := net.SplitHostPort(closedPort(t))
				require.NoError(t, err)
				s.Do(t, "REPLICAOF", "127.0.0.1", port)
			},
			end: func(t *testing.T, s *redistest.Server) { s.Do(t, "REPLICAOF", "NO", "ONE") },
		},
		{
			code: "MISCONF", args: []string{"--dir", dir, "--save", "3600 1000"}, unconfirmed: true,
			start: func(t *testing.T, s *redistest.Server) {
				require.NoError(t, os.RemoveAll(dir))
				s.Do(t, "BGSAVE")
				eventually(t, 5*time.Second, func() bool {
					text, err := redis.String(s.Do(t, "INFO", "persistence"), nil)
					return err == nil && strings.Contains(text, "rdb_last_bgsave_status:err")
				}, "the snapshot did not fail")
			},
			end: configSet("stop-writes-on-bgsave-error", "no"),
		},
		{
			code: "BUSY", args: []string{"--busy-reply-threshold", "10"}, unconfirmed: true,
			start: func(t *testing.T, s *redistest.Server) {
				conn := s.Dial(t)
				running := async(t, func() error {
					_, err := conn.Do("EVAL", "while true do end", 0)
					return errors.Join(conn.Close(), err)
				})
				t.Cleanup(func() { require.ErrorContains(t, resultWithin(t, running, time.Second), "killed") })
				requireLine(t, s, "BUSY")
			},
			end: func(t *testing.T, s *redistest.Server) { s.Do(t, "SCRIPT", "KILL") },
		},
		{
			code: "LOADING", args: []string{"--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"},
			start: func(t *testing.T, s *redistest.Server) {
				s.Do(t, "EVAL", "for i = 1, 600 do redis.call('SET', 'ballast:' .. i, string.rep('x', i), 'PX', 60000) end", 0)
				s.Do(t, "SAVE")
				s.Kill(t)
				s.Boot(t)
				requireLine(t, s, "LOADING")
			},
			end: func(t *testing.T, s *redistest.Server) {
				eventually(t, 10*time.Second, func() bool { _, err := s.Try(t, "GET", "x"); return err == nil }, "it loads for ever")
			},
		},
	}
}

// requireLine waits until the server refuses commands.
func requireLine(t *testing.T, s *redistest.Server, code string) {
	t.Helper()
	eventually(t, 5*time.Second, func() bool {
		_, err := s.Try(t, "GET", "x")
		return err != nil && strings.HasPrefix(err.Error(), code)
	}, "the server is not "+code)
}

// A server in trouble makes attempts fail with an error that may be retried, and leaves nothing behind; a blocking Lock rides it out.
func TestServerInTrouble(t *testing.T) {
	t.Parallel()
	for _, tt := range troubles(t) {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.args...)
			c := newTestClient(t, s, WithCommandTimeout(250*time.Millisecond))
			require.NoError(t, c.Ping(t.Context()))
			held := NewRedisLock("held", c)
			require.NoError(t, held.Lock(t.Context()))
			tt.start(t, s)

			for name, l := range map[string]Mutex{"p": NewRedisLock("p", c), "r": NewReentrantLock("r", c)} {
				err := l.TryLock(t.Context())
				require.ErrorContains(t, err, tt.code, name)
				require.True(t, IsRetryableErr(err), err)
				require.NotErrorIs(t, err, ErrDenied)
			}
			done, err := c.SetNEX(t.Context(), "raw", "v", time.Minute)
			require.ErrorContains(t, err, tt.code)
			require.True(t, IsRetryableErr(err), err)
			require.False(t, done, "an error is no success")
			err = NewRedisLock("p", c, WithBlockTimeout(50*time.Millisecond)).Lock(t.Context())
			require.ErrorContains(t, err, tt.code, "the last reason seen")
			if tt.unconfirmed {
				err := held.Unlock(t.Context())
				require.ErrorIs(t, err, ErrUnconfirmed)
				require.ErrorContains(t, err, tt.code)
				require.False(t, IsRetryableErr(err))
			}

			plain, reentrant := NewRedisLock("p", c, WithBlock()), NewReentrantLock("r", c, WithBlock(), WithOwner("me"))
			waits := []<-chan error{
				async(t, func() error { return plain.Lock(t.Context()) }),
				async(t, func() error { return reentrant.Lock(t.Context()) }),
			}
			select {
			case err := <-waits[0]:
				require.FailNow(t, "did not wait", "%v", err)
			case err := <-waits[1]:
				require.FailNow(t, "did not wait", "%v", err)
			case <-time.After(30 * time.Millisecond):
			}
			tt.end(t, s)
			for _, wait := range waits {
				require.NoError(t, resultWithin(t, wait, 5*time.Second))
			}
			require.NoError(t, plain.Unlock(t.Context()))
			require.NoError(t, reentrant.Unlock(t.Context()))
			for _, key := range []string{"p", "r"} {
				eventually(t, time.Second, func() bool { return pttl(t, s, c, key) == -2 }, key+" is still there")
			}
			if tt.unconfirmed {
				eventually(t, 2*time.Second, func() bool { return pttl(t, s, c, "held") == -2 }, "the release was not repeated")
			}
		})
	}
}

// A Cluster without slots is down.
func TestClusterDown(t *testing.T) {
	t.Parallel()
	_, bus, err := net.SplitHostPort(closedPort(t))
	require.NoError(t, err)
	s := redistest.StartTCP(t, "--cluster-enabled", "yes", "--cluster-port", bus)
	c := newTestClient(t, s)
	for _, l := range []Mutex{NewRedisLock("k", c), NewReentrantLock("k", c)} {
		err := l.TryLock(t.Context())
		require.ErrorContains(t, err, "CLUSTERDOWN")
		require.True(t, IsRetryableErr(err), err)
	}
}

// A server that ends and comes back is ridden out too.
func TestBlockingLockRidesOutRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	warm(t, c, 3)
	s.Kill(t)
	err := NewRedisLock("p", c).TryLock(t.Context())
	require.True(t, IsRetryableErr(err), err)
	waits := []<-chan error{
		async(t, func() error { return NewRedisLock("p", c, WithBlock()).Lock(t.Context()) }),
		async(t, func() error { return NewReentrantLock("r", c, WithBlock()).Lock(unbounded(t)) }),
	}
	select {
	case err := <-waits[0]:
		require.FailNow(t, "did not wait", "%v", err)
	case err := <-waits[1]:
		require.FailNow(t, "did not wait", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.Boot(t)
	for _, wait := range waits {
		require.NoError(t, resultWithin(t, wait, 3*time.Second))
	}
}

// C5: without memory, what is held can be renewed and given back, level by level.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	ctx := t.Context()
	plain, reentrant := NewRedisLock("p", c), NewReentrantLock("r", c)
	keptPlain, keptReentrant := NewRedisLock("kp", c, WithMinHold(10*time.Second)), NewReentrantLock("kr", c, WithMinHold(10*time.Second))
	h, err := plain.Acquire(ctx)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, reentrant.Lock(ctx))
	}
	require.NoError(t, keptPlain.Lock(ctx))
	require.NoError(t, keptReentrant.Lock(ctx))
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")

	for _, l := range []Mutex{NewRedisLock("new", c), NewReentrantLock("new", c)} {
		err := l.TryLock(ctx)
		require.ErrorContains(t, err, "OOM")
		requireFree(t, s, c, "new")
	}
	require.ErrorContains(t, reentrant.Lock(ctx), "OOM", "a fourth level")
	require.NoError(t, h.Extend(ctx, time.Minute))
	require.Greater(t, pttl(t, s, c, "p"), 50*time.Second)
	for levels := 2; levels > 0; levels-- {
		require.NoError(t, reentrant.Unlock(ctx))
		requireCount(t, s, c, "r", levels)
	}
	require.NoError(t, reentrant.Unlock(ctx))
	require.NoError(t, h.Unlock(ctx))
	requireFree(t, s, c, "r")
	requireFree(t, s, c, "p")
	require.NoError(t, keptPlain.Unlock(ctx))
	require.NoError(t, keptReentrant.Unlock(ctx))
	for _, key := range []string{"kp", "kr"} {
		requireHeld(t, s, c, key)
		require.LessOrEqual(t, pttl(t, s, c, key), 10*time.Second)
	}
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	require.ErrorIs(t, keptPlain.TryLock(ctx), ErrLockAcquiredByOthers)
	require.ErrorIs(t, keptReentrant.TryLock(ctx), ErrLockAcquiredByOthers)
}

// requireAtOnce runs a blocking Lock that must not wait.
func requireAtOnce(t testing.TB, lock func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	start := time.Now()
	err := lock(ctx)
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "it waited")
	require.Less(t, time.Since(start), 2*time.Second)
	require.False(t, IsRetryableErr(err), err)
	return err
}

// A wrong password and a missing permission do not pass: a blocking Lock returns at once.
func TestBlockingLockDoesNotWaitForPermission(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "sesame")
	admin := s.Dial(t, redis.DialPassword("sesame"))
	defer admin.Close() //nolint:errcheck // nothing is pending
	for _, user := range [][]any{
		{"SETUSER", "nothing", "on", ">pw", "~*"},
		{"SETUSER", "noscript", "on", ">pw", "~*", "+set"},
		{"SETUSER", "notype", "on", ">pw", "~*", "+@all", "-type", "-set"},
		{"SETUSER", "nokeys", "on", ">pw", "~other:*", "+@all"},
		{"SETUSER", "off", "off", ">pw", "~*", "+@all"},
	} {
		_, err := admin.Do("ACL", user...)
		require.NoError(t, err)
	}
	_, err := admin.Do("SET", "relock:{taken}", "relock/1|p|somebody's", "PX", 60000)
	require.NoError(t, err)
	for _, tt := range []struct{ name, user, password, want string }{
		{"no password", "", "", "NOAUTH"},
		{"wrong password", "", "hunter2", "WRONGPASS"},
		{"user is off", "off", "pw", "WRONGPASS"},
		{"no command", "nothing", "pw", "NOPERM"},
		{"no script", "noscript", "pw", "NOPERM"},
		{"no command, in the script", "notype", "pw", ""},
		{"no keys", "nokeys", "pw", "NOPERM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := NewClient(s.Network, s.Address, tt.password, WithUsername(tt.user), WithBlock())
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			for name, lock := range map[string]func(context.Context) error{
				"taken":     NewRedisLock("taken", c).Lock,
				"reentrant": NewReentrantLock("taken", c).Lock,
				"Do":        func(ctx context.Context) error { return NewReentrantLock("other", c).Do(ctx, noWork) },
				"Acquire":   func(ctx context.Context) error { return second(NewRedisLock("taken", c).Acquire(ctx)) },
			} {
				err := requireAtOnce(t, lock)
				require.ErrorIs(t, err, ErrDenied, name)
				require.ErrorContains(t, err, tt.want, name)
			}
		})
	}
}

// C11: a key that something else uses is told apart from a lock that is held, and left as it is.
func TestKeyConflict(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	plainHeld, reentrantHeld := NewRedisLock("plain lock", c), NewReentrantLock("reentrant lock", c)
	require.NoError(t, plainHeld.Lock(t.Context()))
	require.NoError(t, reentrantHeld.Lock(t.Context()))
	other := sibling(t, s, c, WithBlock())
	for name, create := range map[string][]any{
		"string":         {"SET", "hello"},
		"empty string":   {"SET", ""},
		"number":         {"SET", 7},
		"hash":           {"HSET", "field", "value"},
		"hash of counts": {"HSET", "client:1", "1"},
		"list":           {"RPUSH", "x"},
		"set":            {"SADD", "x"},
		"sorted set":     {"ZADD", 1, "x"},
		"stream":         {"XADD", "*", "f", "v"},
		"plain lock":     nil,
		"reentrant lock": nil,
	} {
		t.Run(name, func(t *testing.T) {
			if create != nil {
				s.Do(t, create[0].(string), append([]any{keyOf(c, name)}, create[1:]...)...)
			}
			before := s.Do(t, "DUMP", keyOf(c, name))
			plain, reentrant := NewRedisLock(name, other), NewReentrantLock(name, other)
			for kind, calls := range map[string]map[string]func(context.Context) error{"plain": firstCalls(plain), "reentrant": firstCalls(reentrant)} {
				if kind+" lock" == name {
					continue // its own kind: held
				}
				for call, f := range calls {
					if call != "Unlock" {
						require.ErrorIs(t, requireAtOnce(t, f), ErrKeyConflict, "%s %s", kind, call)
					}
				}
			}
			require.Equal(t, before, s.Do(t, "DUMP", keyOf(c, name)))
			if create != nil {
				require.Equal(t, time.Duration(-1), pttl(t, s, c, name), "it got an expiry")
			}
		})
	}
	require.NoError(t, plainHeld.Unlock(t.Context()))
	require.NoError(t, reentrantHeld.Unlock(t.Context()))
}

// A key that was replaced under a hold is lost, and left as it is.
func TestKeyReplacedUnderAHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	for name, l := range map[string]Mutex{"plain": NewRedisLock("plain", c), "reentrant": NewReentrantLock("reentrant", c)} {
		for _, value := range [][]any{{"SET", "mine"}, {"RPUSH", "mine"}, {"HSET", "f", "v"}} {
			require.NoError(t, l.Lock(t.Context()))
			s.Do(t, "DEL", keyOf(c, name))
			s.Do(t, value[0].(string), append([]any{keyOf(c, name)}, value[1:]...)...)
			require.ErrorIs(t, l.Unlock(t.Context()), ErrLockLost, "%s, %v", name, value)
			require.Equal(t, time.Duration(-1), pttl(t, s, c, name))
			s.Do(t, "DEL", keyOf(c, name))
		}
	}
}

// C9: the password changes while a lock is held, and the connections are cut.
func TestPasswordRotation(t *testing.T) {
	t.Parallel()
	const lease = 600 * time.Millisecond
	start := func(t *testing.T) (*redistest.Server, []Hold) {
		s := redistest.Start(t)
		s.Do(t, "ACL", "SETUSER", "app", "on", ">old", "~*", "+@all")
		c, err := NewClient(s.Network, s.Address, "old", WithUsername("app"), WithWatchdog(lease))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		plain, err := NewRedisLock("p", c).Acquire(t.Context())
		require.NoError(t, err)
		reentrant, err := NewReentrantLock("r", c).Acquire(t.Context())
		require.NoError(t, err)
		s.Do(t, "ACL", "SETUSER", "app", "resetpass", ">new")
		s.Do(t, "CLIENT", "KILL", "USER", "app")
		err = NewRedisLock("other", c, WithBlock()).Lock(t.Context())
		require.ErrorIs(t, err, ErrDenied)
		require.ErrorContains(t, err, "WRONGPASS")
		return s, []Hold{plain, reentrant}
	}
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		_, holds := start(t)
		untils := []time.Time{holds[0].ValidUntil(), holds[1].ValidUntil()}
		for i, h := range holds {
			until := untils[i]
			require.ErrorIs(t, endedWithin(t, h.Context(), 2*lease), ErrLockLost)
			require.False(t, time.Now().Before(until), "lost before belief ended")
			require.Less(t, time.Since(until), 200*time.Millisecond)
			err := h.Unlock(t.Context())
			require.ErrorIs(t, err, ErrLockLost)
			require.ErrorIs(t, err, ErrNotHeld)
		}
	})
	t.Run("for a moment", func(t *testing.T) {
		t.Parallel()
		s, holds := start(t)
		time.Sleep(lease / 4) // of the outage
		s.Do(t, "ACL", "SETUSER", "app", ">old")
		select {
		case <-holds[0].Context().Done():
		case <-holds[1].Context().Done():
		case <-time.After(2 * lease):
		}
		for _, h := range holds {
			require.NoError(t, h.Err())
			require.NoError(t, h.Unlock(t.Context()))
		}
	})
}

// leastPrivilege are the commands that locks use, in scripts too; PING is for [Client.Ping] alone. AUTH is always allowed, SELECT is needed
// with WithDatabase. With them an operator makes a user:
//
//	ACL SETUSER app on >password resetkeys ~relock:* -@all +set +get +del +type +pttl +pexpire +hmget +hset +hdel +eval +evalsha +ping
var leastPrivilege = []string{"set", "get", "del", "type", "pttl", "pexpire", "hmget", "hset", "hdel", "eval", "evalsha", "ping"}

// privileged runs everything that needs a permission, and returns what each step said. check runs after each.
func privileged(t *testing.T, c *Client, check func()) map[string]error {
	said := map[string]error{}
	step := func(name string, err error) bool {
		said[name] = err
		check()
		return err == nil
	}
	use := func(name string, acquire func(context.Context) (Hold, error), more func()) {
		h, err := acquire(t.Context())
		if step(name+": acquire", err) {
			if more != nil {
				more()
			}
			step(name+": extend", h.Extend(t.Context(), 40*time.Second))
			step(name+": unlock", h.Unlock(t.Context()))
		}
	}
	step("ping", c.Ping(t.Context()))
	plain := NewRedisLock("plain", c)
	use("plain", plain.Acquire, func() {
		if err := plain.TryLock(t.Context()); !errors.Is(err, ErrLockAcquiredByOthers) {
			step("plain: taken", err)
		}
	})
	reentrant := NewReentrantLock("reentrant", c)
	use("reentrant", reentrant.Acquire, func() { use("nested", reentrant.Acquire, nil) })
	use("plain, kept", NewRedisLock("kept plain", c, WithMinHold(time.Second)).Acquire, nil)
	use("reentrant, kept", NewReentrantLock("kept reentrant", c, WithMinHold(time.Second)).Acquire, nil)
	return said
}

// C10: as a user with the least privileges everything works; with one less, there is an error that says so, and no key without an expiry.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	run := func(t *testing.T, commands []string) map[string]error {
		s.Do(t, "FLUSHALL")
		s.Do(t, "SCRIPT", "FLUSH")
		rules := []any{"SETUSER", "app", "reset", "on", ">pw", "~relock:*", "-@all"}
		for _, command := range commands {
			rules = append(rules, "+"+command)
		}
		s.Do(t, "ACL", rules...)
		c, err := NewClient(s.Network, s.Address, "pw", WithUsername("app"), WithCommandTimeout(time.Second))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		return privileged(t, c, func() {
			keys, err := redis.Strings(s.Do(t, "KEYS", "*"), nil)
			require.NoError(t, err)
			for _, key := range keys {
				require.NotEqual(t, int64(-1), s.Do(t, "PTTL", key), "%s would stay for ever", key)
			}
		})
	}
	for step, err := range run(t, leastPrivilege) {
		require.NoError(t, err, step)
	}
	for i, command := range leastPrivilege {
		t.Run("without "+command, func(t *testing.T) {
			denied := 0
			for step, err := range run(t, slices.Delete(slices.Clone(leastPrivilege), i, i+1)) {
				if err == nil {
					continue
				}
				t.Log(step, err)
				denied++
				require.ErrorIs(t, err, ErrDenied, step)
				require.False(t, IsRetryableErr(err), step)
			}
			require.Positive(t, denied, "it is not needed")
		})
	}
}

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Errors and logs have no hold id, client id, password, value or argument in them, also when a server repeats what it was sent.
func TestErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, gone := range []string{"AUTH", "EVALSHA", "EVAL", "SET", "PING", "TYPE", "DEL"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--rename-command", gone, "")
			s.Do(t, "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "&*", "+@all")
			var log logBuffer
			c, err := NewClient(s.Network, s.Address, secret, WithUsername("app"), WithCommandTimeout(60*time.Millisecond), log.option(),
				WithLabel(secret))
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			var said []string
			note := func(texts ...any) {
				for _, text := range texts {
					for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
						said = append(said, fmt.Sprintf(verb, text))
					}
				}
			}
			use := func(l interface {
				Mutex
				Acquire(context.Context) (Hold, error)
			},
			) {
				h, err := l.Acquire(t.Context())
				note(err)
				if err == nil {
					note(h, h.Extend(t.Context(), 40*time.Second), h.Unlock(t.Context()), h.Err(), context.Cause(h.Context()))
				}
				note(l.Lock(t.Context()), l.Lock(t.Context()), l.Unlock(t.Context()), l.Do(t.Context(), noWork), l.Unlock(t.Context()))
			}
			note(c, c.Ping(t.Context()))
			done, err := c.SetNEX(t.Context(), "raw", secret, time.Minute)
			note(done, err)
			reply, err := c.Eval(t.Context(), NewScript("return redis.call('TYPE', KEYS[1])"), []string{"raw"}, secret)
			note(reply, err)
			use(NewRedisLock("p", c))
			use(NewReentrantLock("r", c, WithOwner("me")))
			h, err := NewRedisLock("lost", c, WithWatchdog(30*time.Millisecond)).Acquire(t.Context())
			note(err)
			if err == nil {
				s.Do(t, "UNLINK", "relock:{lost}")
				select {
				case <-h.Context().Done():
				case <-time.After(100 * time.Millisecond): // it cannot be renewed
				}
				note(h.Err(), h.Unlock(t.Context()))
			}
			require.NoError(t, c.Close())
			for _, text := range append(said, strings.Split(log.String(), "\n")...) {
				require.NotContains(t, text, secret)
				require.NotContains(t, text, "with args")
				require.NotRegexp(t, uuidPattern, text)
			}
			require.Contains(t, strings.Join(said, "\n"), "nknown", "nothing was refused")
		})
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	err := wrap("lock", "a\r\nb \x00\xff", both(ErrDenied, errors.New("NOPERM no")))
	require.EqualError(t, err, `relock: lock "a\r\nb \x00\xff": permission denied by the server: NOPERM no`)
	require.EqualError(t, wrap("new client", "", ErrInvalid), "relock: new client: invalid")
	require.EqualError(t, &NodeError{Node: 3, Err: ErrClosed}, "node 3: client closed")
	require.NoError(t, wrap("lock", "k", nil))
	seen := map[string]bool{}
	for i, err := range append(slices.Clone(permanent), passing...) {
		require.False(t, seen[err.Error()], "two reasons have one text: %v", err)
		seen[err.Error()] = true
		require.NotContains(t, err.Error(), "\n", strconv.Itoa(i))
	}
}
