package conns_test

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A process that may open no further file renews its first watched hold over an
// idle connection. The limit is that of a separate process.
func TestFirstWatchedHoldAtTheLimitOfFiles(t *testing.T) {
	t.Parallel()
	const inside = "RELOCK_TEST_FILE_LIMIT"
	if os.Getenv(inside) != "" {
		holdAtTheLimitOfFiles(t)
		return
	}
	s := redistest.Start(t)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), inside+"=1", "RELOCK_TEST_REDIS="+s.Address)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

func holdAtTheLimitOfFiles(t *testing.T) {
	s, c := locktest.OnShared(t)
	warm(t, c, 2)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	none := before
	none.Cur = 1
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()
	_, err := net.Dial(s.Network, s.Address)
	require.ErrorIs(t, err, syscall.EMFILE)
	h := locktest.Acquire(t, c, "k")
	locktest.RequireRenewed(t, h)
	require.NoError(t, h.Unlock(t.Context()))
}
