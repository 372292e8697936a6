package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

// shell is a shell with the completion of relock, as its user sets it up.
type shell struct {
	argv []string
	load string // a script
	file string // that the script needs, of the package bash-completion
}

var shells = map[string]shell{
	"bash": {
		argv: []string{"bash", "--norc", "-i"}, file: "/usr/share/bash-completion/bash_completion",
		load: ". /usr/share/bash-completion/bash_completion; . <(relock completion bash)",
	},
	"zsh": {
		argv: []string{"zsh", "-f", "-i"},
		load: "autoload -U compinit; compinit -u -D; . <(relock completion zsh)",
	},
}

// installed returns the environment in which relock is found, for a shell that
// is there.
func (b *bench) installed(name, file string) []string {
	b.Helper()
	if _, err := exec.LookPath(name); err != nil {
		redistest.Lacks(b, name+" is not on PATH")
	}
	if _, err := os.Stat(file); file != "" && err != nil {
		redistest.Lacks(b, err.Error())
	}
	self, err := os.Executable()
	require.NoError(b, err)
	folder := b.TempDir()
	require.NoError(b, os.Symlink(self, filepath.Join(folder, "relock")))
	return []string{
		"PATH=" + folder + ":" + os.Getenv("PATH"), "HOME=" + folder, "TERM=xterm", asRelock + "=1",
		"RELOCK_URL=" + urlOf(b.proxy.Network, b.proxy.Address),
	}
}

// completing is a shell in which a person completes lines.
type completing struct {
	*terminal
	ends int
}

// open starts a shell on a terminal.
func (b *bench) open(name string) *completing {
	b.Helper()
	s := shells[name]
	env := b.installed(name, s.file)
	load := filepath.Join(b.TempDir(), "load")
	require.NoError(b, os.WriteFile(load, []byte(s.load), 0o600))
	c := &completing{b.onTerminal(s.argv, env...), 0}
	c.enter(". " + load)
	return c
}

// enter types a line, and waits until it is done.
func (c *completing) enter(line string) {
	c.Helper()
	c.ends++
	c.types(fmt.Sprintf(`%s; echo end""%d.`+"\r", line, c.ends))
	c.says(fmt.Sprintf("end%d.", c.ends))
}

// completes types a line, a Tab and Enter, until its output has the text: the
// server has 300 ms to name what completes it.
func (c *completing) completes(line, want string) {
	c.Helper()
	for range 10 {
		if c.enter(line + "\t"); strings.Contains(c.out.String(), want) {
			return
		}
	}
	require.Fail(c, "it is not completed", "%q has no %q in\n%q", line, want, c.out.String())
}

// completable is a server with locks and queues that others have named.
func completable(t *testing.T) *bench {
	b := newBench(t)
	for _, key := range []string{"orders/42", "cart:7", "stock"} {
		b.hold(key)
	}
	b.enqueue(b.queue(), queue.Task{ID: "mail-1"})
	return b
}

// In a real shell a Tab completes the name of a lock or of a queue that the
// server has, also one with a colon.
func TestTabCompletes(t *testing.T) {
	t.Parallel()
	for name := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := completable(t)
			c := b.open(name)
			c.completes("relock inspect -o json orders/", `"key":"orders/42","state":"held"`)
			c.completes("relock inspect -o json cart:", `"key":"cart:7","state":"held"`)
			c.completes("relock queue stats -o json ma", `"name":"mails"`)
			c.completes("relock insp\t-o json sto", `"key":"stock","state":"held"`)
		})
	}
}

// Bash inserts what names begin with as it is, and the next Tab evaluates that.
// So a name that means something to a shell is not offered.
func TestTabRunsNothing(t *testing.T) {
	t.Parallel()
	for name := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			proof := filepath.Join(b.TempDir(), "proof")
			for n := range 2 {
				b.hold(fmt.Sprintf("evil$(>%s)%d", proof, n))
			}
			c := b.open(name)
			c.types("relock inspect ev\t\t\t\x15")
			c.enter("true")
			require.NoFileExists(t, proof)
		})
	}
}

// Fish lists what a Tab would offer.
func TestFishCompletes(t *testing.T) {
	t.Parallel()
	b := completable(t)
	env := b.installed("fish", "")
	for line, want := range map[string]string{
		"relock inspect ord":    "orders/42",
		"relock inspect cart:":  "cart:7",
		"relock queue stats ma": "mails",
		"relock insp":           "inspect\tPrint the holders and waiters of a lock",
	} {
		p := &process{TB: b, cmd: exec.Command("fish", "--no-config", "-c",
			"relock completion fish | source; complete -C $argv", line), done: make(chan struct{})}
		p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), env...), &p.out, &p.err
		p.begin()
		require.Zero(t, p.code(), p.err.String())
		require.Equal(t, want+"\n", p.out.String(), line)
	}
}
