package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes that are not those of the command. Those from codeLost on are
// as timeout(1) has them.
const (
	codeBusy      = 75  // by default; EX_TEMPFAIL of sysexits.h
	codeLost      = 124 // the lock was lost
	codeFailed    = 125 // relock itself has failed
	codeCannotRun = 126
	codeNotFound  = 127
	codeSignal    = 128 // and the number of the signal
)

// Main runs relock with these arguments and returns its exit code. As the guard
// of another relock, it runs a command instead; see the documentation of the
// package.
func Main(args []string) int {
	if config, found := os.LookupEnv(guardVariable); found {
		return guardMain(config, args)
	}
	root := newRoot()
	root.SetArgs(args)
	err := root.Execute()
	say(os.Stderr, err)
	return codeOf(err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:                "relock",
		Short:              "Run commands under locks on Redis, and look at locks and queues",
		Version:            version(),
		SilenceUsage:       true,
		SilenceErrors:      true,
		DisableSuggestions: true, // an error is one line
	}
	var c connection
	c.addFlags(root.PersistentFlags())
	root.MarkFlagsMutuallyExclusive("redis", "redis-file")
	root.AddCommand(newRun(&c), newList(&c), newInspect(&c), newRelease(&c), newQueue(&c), newDoctor(&c))
	return root
}

// version returns the version of the module, as go install has recorded it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// exitError is the end of a command with another code than 0 or codeFailed.
type exitError struct {
	code int
	err  error // nil if there is nothing to say
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit returns the end of a command. It is nil for code 0 without an error.
func exit(code int, err error) error {
	if code == 0 && err == nil {
		return nil
	}
	return &exitError{code, err}
}

func codeOf(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	}
	return codeFailed
}

// say writes an error in one line, unless it is only an exit code.
func say(to io.Writer, err error) {
	var e *exitError
	if err == nil || errors.As(err, &e) && e.err == nil {
		return
	}
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	_, _ = fmt.Fprintf(to, "relock: %s\n",
		strings.TrimPrefix(text, "relock: ")) // nobody can be told that stderr is closed
}
