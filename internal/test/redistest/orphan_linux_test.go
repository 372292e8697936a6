package redistest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A test process that is killed leaves no server.
func TestServerEndsWithItsTest(t *testing.T) {
	if os.Getenv("RELOCK_TEST_ORPHAN") != "" {
		s := StartTCP(t)
		_, _ = os.Stdout.WriteString(s.Address + "\n")
		select {} // until it is killed
	}
	t.Parallel()
	Binary(t)
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "RELOCK_TEST_ORPHAN=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	address := lines.Text()
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		require.NoError(t, conn.Close())
		require.True(t, time.Now().Before(deadline), "the server is still up")
	}
}

// The end of the shell that started the tests continues no server that a test
// has paused.
func TestServerIsInNoGroupOfAShell(t *testing.T) {
	t.Parallel()
	pid := Start(t).cmd.Process.Pid
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group)
}
