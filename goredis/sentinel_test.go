package goredis_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// masterName is what the Sentinels call the master.
const masterName = "main"

// sentinels are three Sentinels that watch a master with one replica.
type sentinels struct {
	master, replica *redistest.Server
	addresses       []string
}

func startSentinels(t testing.TB) *sentinels {
	t.Helper()
	s := &sentinels{master: redistest.StartTCP(t, "--repl-diskless-sync-delay", "0")}
	host, port := "127.0.0.1", s.master.Address[len("127.0.0.1:"):]
	s.replica = redistest.StartTCP(t, "--replicaof", host+" "+port)
	for range 3 {
		s.addresses = append(s.addresses, startSentinel(t, port))
	}
	for _, address := range s.addresses {
		testkit.Eventually(t, 30*time.Second, func() bool { return knowsAll(t, address) }, "a Sentinel does not know the others")
	}
	return s
}

// startSentinel runs a Sentinel until the test ends, and returns its address.
func startSentinel(t testing.TB, port string) (address string) {
	t.Helper()
	own := redistest.FreePort(t)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	settings := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %s 2\n", own, filepath.Dir(file), masterName, port) +
		fmt.Sprintf("sentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n", masterName)
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	cmd := exec.Command(redistest.Binary(t), file, "--sentinel")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return "127.0.0.1:" + own
}

// knowsAll reports whether the Sentinel knows the replica and the other
// Sentinels.
func knowsAll(t testing.TB, address string) bool {
	conn, err := redigo.Dial("tcp", address)
	if err != nil {
		return false // it is still starting
	}
	defer conn.Close() //nolint:errcheck // nothing is pending
	master, err := redigo.StringMap(conn.Do("SENTINEL", "MASTER", masterName))
	require.NoError(t, err)
	return master["num-slaves"] == "1" && master["num-other-sentinels"] == "2" && master["flags"] == "master"
}

// client returns a client of go-redis. It is closed when the test ends.
func (s *sentinels) client(t testing.TB, change ...func(*redis.FailoverOptions)) *redis.Client {
	o := &redis.FailoverOptions{MasterName: masterName, SentinelAddrs: s.addresses}
	for _, f := range change {
		f(o)
	}
	rdb := redis.NewFailoverClient(o)
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	return rdb
}
