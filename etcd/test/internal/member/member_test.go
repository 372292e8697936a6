package member

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Neither a test process that ends nor one that is killed leaves a member. It
// may be one that waits for the others of its cluster.
func TestMemberEndsWithItsTest(t *testing.T) {
	if dir, ok := os.LookupEnv("RELOCK_TEST_PROGRAM"); ok {
		binary.dir = dir
		others := os.Getenv("RELOCK_TEST_OTHERS")
		fmt.Println(startOne(t, others).Client)
		select {} // until it is killed
	}
	_, err := program()
	require.NoError(t, err)
	t.Cleanup(Clean)
	testkit.Each(t, map[string]string{
		"it answers": "", "it waits for others": ",other=http://127.0.0.1:1",
	}, func(t *testing.T, _, others string) {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestMemberEndsWithItsTest$")
		cmd.Env = append(os.Environ(), "RELOCK_TEST_PROGRAM="+binary.dir, "RELOCK_TEST_OTHERS="+others, "TMPDIR="+t.TempDir())
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan())
		address := lines.Text()
		testkit.Eventually(t, testkit.Patience, func() bool { return listens(address) }, "the member is up")
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		testkit.Eventually(t, testkit.Patience, func() bool { return !listens(address) }, "the member has ended")
	})
}

func startOne(t *testing.T, others string) *Member {
	t.Helper()
	client, err := redistest.FindPort()
	require.NoError(t, err)
	peer, err := redistest.FindPort()
	require.NoError(t, err)
	c := Config{Dir: filepath.Join(t.TempDir(), "m"), Name: "m", Client: "127.0.0.1:" + client, Peer: "127.0.0.1:" + peer}
	c.Cluster = "m=http://" + c.Peer + others
	m, err := Start(c)
	require.NoError(t, err)
	return m
}

func listens(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
