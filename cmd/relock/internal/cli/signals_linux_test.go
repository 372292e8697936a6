package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock/internal/test/testkit"
)

// shell returns a command line that runs a script, in which "$@" is relock run
// with these arguments.
func (b *bench) shell(text string, args ...string) []string {
	b.Helper()
	return append([]string{"sh", "-c", text, "sh"}, b.relock(append([]string{"run"}, args...)...)...)
}

// The command gets the signals of relock, which waits for it. The shell waits,
// because one that starts a process may lose a signal.
func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, sig := range passed {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			b := *b
			b.TB = t
			text := fmt.Sprintf(`trap "echo got it; exit 5" %d; sleep 1000 & echo ready; while :; do wait; done`, sig)
			p := b.run(fmt.Sprint("key", i), "sh", "-c", text)
			p.says("ready")
			p.signal(sig.(unix.Signal))
			require.Equal(t, 5, p.code())
			require.Equal(t, 1, p.out.Count("got it"))
		})
	}
}

// While relock waits for the lock, a signal ends it, and it leaves the queue.
func TestSignalsEndTheWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hold("key")
	c := b.client()
	waiting := func(n int) func() bool {
		return func() bool {
			info, err := c.Inspect(t.Context(), "key")
			require.NoError(t, err)
			return info.Waiting == n
		}
	}
	for _, sig := range passed {
		p := b.run("key", "true")
		testkit.Eventually(t, testkit.Patience, waiting(1), "relock does not wait")
		p.signal(sig.(unix.Signal))
		require.Equal(t, codeSignal+int(sig.(unix.Signal)), p.code())
		require.Empty(t, p.err.String())
		testkit.Eventually(t, testkit.Patience, waiting(0), "relock is still in the queue")
	}
}

// What nohup(1) ignores stays ignored, and so does the INT that a shell ignores
// for what it runs in the background. Otherwise both are the default.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, tt := range []struct {
		text, sig string
		code      int
	}{
		{`"$@"`, "HUP", 129},
		{`trap "" HUP; "$@"`, "HUP", 4},
		{`trap "" INT; "$@"`, "HUP", 129},
		{`"$@"`, "INT", 130},
		{`trap "" INT; "$@"`, "INT", 4},
		{`trap "" HUP; "$@"`, "INT", 130},
	} {
		p := b.start(b.shell(tt.text, "key", "sh", "-c", "kill -"+tt.sig+" $$; exit 4"))
		require.Equal(t, tt.code, p.code(), "%s: %s", tt.text, tt.sig)
	}
}

// The command has the environment and the descriptors of relock.
func TestCommandInherits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shows := `echo "$RELOCK_KEY $RELOCK_LEASE_MS $RELOCK_FENCE"; env | grep -c RELOCK_GUARD`
	p := b.start(b.shell(`RELOCK_KEY=other; export RELOCK_KEY; "$@"`, "--lease", "5", "key", "sh", "-c", shows))
	require.Equal(t, 1, p.code(), "grep has counted")
	require.Regexp(t, `^key 5000 [1-9]\d+\n0\n$`, p.out.String())

	file := filepath.Join(t.TempDir(), "file")
	opens := fmt.Sprintf(`exec 3>%s 5>&3; "$@"`, file)
	lists := []string{"sh", "-c", `echo three >&3; echo five >&5; for fd in /proc/$$/fd/*; do readlink $fd; done`}
	p = b.start(b.shell(opens, append([]string{"key"}, lists...)...))
	require.Zero(t, p.code())
	bare := b.start(append([]string{"sh", "-c", opens, "sh"}, lists...))
	require.Zero(t, bare.code())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "three\nfive\n", string(text))
	require.Equal(t, bare.out.Count("pipe:"), p.out.Count("pipe:"), "no pipe of relock")

	p = b.start(b.shell(`"$@" <&-`, "key", "sh", "-c", `read x || echo end of input`))
	require.Zero(t, p.code())
	require.Equal(t, "end of input\n", p.out.String())
}

// Large input and output go straight through.
func TestPipesOfTheCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	input := make([]byte, 10<<20)
	for i := range input {
		input[i] = byte(i ^ i>>8 ^ i>>16)
	}
	b.stdin = bytes.NewReader(input)
	p := b.run("key", "cat")
	require.Zero(t, p.code())
	require.True(t, p.out.String() == string(input))
	require.Empty(t, strings.TrimSpace(p.err.String()))
}
