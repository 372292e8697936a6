package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// page returns the path of a document.
func page(name string) string { return filepath.Join("..", "..", "..", "..", "docs", name) }

// Each command line of relock in the documentation has flags that there are,
// and which fit together.
func TestDocumentedLines(t *testing.T) {
	t.Parallel()
	found := 0
	for _, block := range testkit.CodeBlocksIn(t, page("cli.md"), "") {
		for line := range strings.Lines(block) {
			_, text, ok := strings.Cut(line, "relock run ")
			if !ok {
				continue
			}
			found++
			var c connection
			r, cmd := runOf(&c)
			cmd.SetOut(io.Discard)
			require.NoError(t, cmd.ParseFlags(strings.Fields(text)), line)
			require.NoError(t, cmd.ValidateFlagGroups(), line)
			require.NoError(t, r.take(cmd, cmd.Flags().Args()), line)
			require.NotEmpty(t, r.command, line)
		}
	}
	require.Greater(t, found, 4)
}

// Each line of the other commands has flags that there are, too.
func TestDocumentedTools(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, block := range testkit.CodeBlocksIn(t, page("tools.md"), "") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, " | ")
			words := strings.Fields(strings.ReplaceAll(line, "web-7 hangs", "web-7_hangs"))
			if len(words) < 2 || words[0] != "relock" || words[1] == "run" {
				continue
			}
			cmd, args, err := newRoot().Find(words[1:])
			require.NoError(t, err, line)
			require.NoError(t, cmd.ParseFlags(args), line)
			require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), line)
			found[cmd.Name()] = true
		}
	}
	require.Equal(t, map[string]bool{
		"ls": true, "inspect": true, "release": true, "doctor": true,
		"stats": true, "dead": true, "requeue": true, "remove": true,
		"tasks": true, "pause": true, "resume": true, "paused": true,
	}, found)
}

// Completion scripts are there for four shells.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out strings.Builder
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs([]string{"completion", shell})
		require.NoError(t, root.Execute(), shell)
		require.Contains(t, out.String(), "relock", shell)
	}
}

// The script for bash completes a command line. Functions stand in for those
// of the package bash-completion, and of a shell that completes.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		redistest.Lacks(t, "bash is not on PATH")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for line, want := range map[string]string{
		"relock re": "release\n",
		"relock queue re": "remove   (Remove dead letters, or tasks that wait)\n" +
			"requeue  (Queue dead letters once more)\n" +
			"resume   (End a pause of a queue, or of a key of it)\n",
		"relock doctor --outp":  "--output\n",
		"relock release --reas": "--reason\n",
	} {
		words := strings.Fields(line)
		cmd := exec.Command(bash, append([]string{"--norc", "-c", `
relock() { RELOCK_TEST_AS_RELOCK=1 "$SELF" "$@"; }
eval "$(relock completion bash)"
compopt() { :; }
_init_completion() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; COLUMNS=200
__start_relock
printf '%s\n' "${COMPREPLY[@]}"`, "bash"}, words...)...)
		cmd.Env = append(os.Environ(), "SELF="+self)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err, errs.String())
		require.Empty(t, errs.String())
		require.Equal(t, want, string(out), line)
	}
}
