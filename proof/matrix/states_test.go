package matrix_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// trouble is a state of a server that passes.
type trouble struct {
	code        string
	args        []string
	start       func(testing.TB, *redistest.Server)
	end         func(testing.TB, *redistest.Server)
	unconfirmed bool // releases are refused meanwhile
	renews      bool // renewals are not
}

func configSet(name, value string) func(testing.TB, *redistest.Server) {
	return func(t testing.TB, s *redistest.Server) { s.Do(t, "CONFIG", "SET", name, value) }
}

func troubles(t testing.TB) []trouble {
	dir := t.TempDir()
	return []trouble{
		{code: "OOM", start: configSet("maxmemory", "1"), end: configSet("maxmemory", "0"), renews: true},
		{
			code: "NOREPLICAS", start: configSet("min-replicas-to-write", "1"),
			end: configSet("min-replicas-to-write", "0"), unconfirmed: true,
		},
		{
			code: "READONLY", unconfirmed: true,
			start: demote,
			end:   func(t testing.TB, s *redistest.Server) { s.Do(t, "REPLICAOF", "NO", "ONE") },
		},
		{
			code: "MISCONF", args: []string{"--dir", dir, "--save", "3600 1000"}, unconfirmed: true,
			start: func(t testing.TB, s *redistest.Server) {
				require.NoError(t, os.RemoveAll(dir))
				s.Do(t, "BGSAVE")
				testkit.Eventually(t, testkit.Patience, func() bool {
					text, err := redis.String(s.Do(t, "INFO", "persistence"), nil)
					return err == nil && strings.Contains(text, "rdb_last_bgsave_status:err")
				}, "the snapshot did not fail")
			},
			end: configSet("stop-writes-on-bgsave-error", "no"),
		},
		{
			code: "BUSY", args: []string{"--busy-reply-threshold", "10"}, unconfirmed: true,
			start: func(t testing.TB, s *redistest.Server) {
				conn := s.Dial(t)
				running := testkit.Async(t, func() error {
					_, err := conn.Do("EVAL", "while true do end", 0)
					return errors.Join(conn.Close(), err)
				})
				t.Cleanup(func() { require.ErrorContains(t, testkit.ResultWithin(t, running, testkit.Patience), "killed") })
				requireLine(t, s, "BUSY")
			},
			end: func(t testing.TB, s *redistest.Server) { s.Do(t, "SCRIPT", "KILL") },
		},
		{
			code: "connection refused", args: []string{"--appendonly", "yes", "--appendfsync", "always"}, unconfirmed: true,
			start: func(t testing.TB, s *redistest.Server) { s.Kill(t) },
			end:   func(t testing.TB, s *redistest.Server) { s.BootAndLoad(t) },
		},
		{
			// It loads for a minute, unless it is told to make haste.
			code: "LOADING", unconfirmed: true,
			args: []string{"--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"},
			start: func(t testing.TB, s *redistest.Server) {
				s.Do(t, "EVAL",
					"for i = 1, 6000 do redis.call('SET', 'ballast:' .. i, string.rep(i .. ' ', 500), 'PX', 180000) end", 0)
				s.Do(t, "SAVE")
				s.Kill(t)
				s.Boot(t)
				requireLine(t, s, "LOADING")
			},
			end: func(t testing.TB, s *redistest.Server) {
				s.Do(t, "CONFIG", "SET", "key-load-delay", "0")
				testkit.Eventually(t, testkit.Patience,
					func() bool { _, err := s.Try(t, "GET", "x"); return err == nil }, "it loads for ever")
			},
		},
	}
}

// requireLine waits until the server refuses commands.
func requireLine(t testing.TB, s *redistest.Server, code string) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		_, err := s.Try(t, "GET", "x")
		return err != nil && strings.HasPrefix(err.Error(), code)
	}, "the server is not "+code)
}

// A Cluster without slots is down.
func TestClusterDown(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--cluster-enabled", "yes", "--cluster-port", redistest.FreePort(t))
	c := locktest.NewTestClient(t, s)
	for _, l := range []relock.Mutex{relock.NewRedisLock("k", c), relock.NewReentrantLock("k", c)} {
		err := l.TryLock(t.Context())
		require.ErrorContains(t, err, "CLUSTERDOWN")
		require.True(t, relock.IsRetryableErr(err), err)
	}
}

// A blocking Lock rides out a server that has no connection free for a moment.
func TestBlockingLockRidesOutTooManyClients(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	open := []redis.Conn{s.Dial(t), s.Dial(t)}
	for _, conn := range open { // both are in before there is no room for another
		_, err := conn.Do("CONFIG", "SET", "maxclients", "2")
		require.NoError(t, err)
	}
	c := locktest.NewTestClient(t, s)
	// The server answers with the state and cuts the connection, which may be
	// seen first.
	require.True(t, relock.IsRetryableErr(relock.NewRedisLock("lock", c).TryLock(t.Context())))
	result := testkit.Async(t, func() error {
		return relock.NewRedisLock("lock", c, relock.WithBlock()).Lock(t.Context())
	})
	for _, conn := range open {
		require.NoError(t, conn.Close())
	}
	require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
}
