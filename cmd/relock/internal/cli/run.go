package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// runner is relock run.
type runner struct {
	*connection

	key     string
	command []string

	wait, lease, grace, minHold       seconds
	waits, limited                    bool // --wait, --permits were given
	nonblock, fair, shared, exclusive bool
	foreground                        bool
	label                             string
	busy, permits                     int
}

const runHelp = `Acquires the lock KEY, runs COMMAND, and releases the lock.

The command is ended before the lease ends: it gets TERM when --grace is left,
and KILL just before the end. It gets them if relock cannot reach the server, and
if relock itself is killed or stopped. What the command leaves running in its
process group is ended before the lock is released.

The command finds the lock's name in RELOCK_KEY, the fencing token in
RELOCK_FENCE, and the lease in milliseconds in RELOCK_LEASE_MS. With --permits
the token is empty: holders side by side have no order.

Exit code: that of the command, or 128 and the number of the signal that has
ended it; 75 if others hold the lock (see -E); 124 if the lock was lost; 125 if
relock has failed; 126 if the command cannot be run; 127 if it is not found.`

func newRun(c *connection) *cobra.Command {
	_, cmd := runOf(c)
	return cmd
}

func runOf(c *connection) (*runner, *cobra.Command) {
	r := &runner{connection: c, lease: seconds(30 * time.Second)}
	cmd := &cobra.Command{
		Use:                   "run [flags] KEY [--] COMMAND [ARG...]",
		Short:                 "Run a command while holding a lock",
		Long:                  runHelp,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.take(cmd, args); err != nil {
				return err
			}
			return r.run(cmd.ErrOrStderr())
		},
	}
	r.addFlags(cmd)
	return r, cmd
}

func (r *runner) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetInterspersed(false) // the flags behind KEY are those of the command
	flags.VarP(&r.wait, "wait", "w", "wait for the lock for at most this long; 0 is --nonblock (default: without limit)")
	flags.BoolVarP(&r.nonblock, "nonblock", "n", false, "do not wait for the lock")
	flags.IntVarP(&r.busy, "conflict-exit-code", "E", codeBusy, "exit code if others hold the lock")
	flags.BoolVarP(&r.shared, "shared", "s", false, "read side of a read/write lock")
	flags.BoolVarP(&r.exclusive, "exclusive", "x", false, "write side of a read/write lock")
	flags.IntVar(&r.permits, "permits", 0, "semaphore: run while fewer than this many others hold KEY, 1 to 10000")
	flags.BoolVar(&r.fair, "fair", false, "in the order of arrival; all users of KEY must agree on it")
	flags.Var(&r.lease, "lease", "lease of the lock, 1s or more; it is renewed while the command runs")
	flags.Var(&r.grace, "grace",
		"time from TERM to KILL before the lease ends, up to half of it (default a third, at most 10s)")
	flags.Var(&r.minHold, "min-hold", "keep the lock for at least this long (default: not)")
	flags.StringVar(&r.label, "label", "", "text that is stored with the lock, for people who inspect it")
	flags.BoolVar(&r.foreground, "foreground", false,
		"let the command read the terminal; only the command itself is ended, not its children")
	cmd.MarkFlagsMutuallyExclusive("nonblock", "wait")
	cmd.MarkFlagsMutuallyExclusive("shared", "exclusive", "permits")
}

// take sets the key and the command, and checks the flags.
func (r *runner) take(cmd *cobra.Command, args []string) error {
	if len(args) > 1 && args[1] == "--" {
		args = append(args[:1:1], args[2:]...)
	}
	if len(args) < 2 {
		return errors.New("run: needs a KEY and a COMMAND, see relock run --help")
	}
	r.key, r.command = args[0], args[1:]
	lease, flags := time.Duration(r.lease), cmd.Flags()
	r.limited = flags.Changed("permits")
	if r.waits = flags.Changed("wait"); !flags.Changed("grace") {
		r.grace = seconds(min(10*time.Second, lease/3))
	}
	switch {
	case lease < time.Second:
		return fmt.Errorf("--lease: %v is below 1s", lease)
	case r.grace > r.lease/2:
		return fmt.Errorf("--grace: %v is above %v, half of the lease", time.Duration(r.grace), lease/2)
	case r.busy < 0 || r.busy > 255:
		return fmt.Errorf("--conflict-exit-code: %d is not from 0 to 255", r.busy)
	}
	return nil
}

// margin is how long before the end of the hold the command is killed: the
// guard may wake up late, and processes take a moment to end.
func (r *runner) margin() time.Duration {
	return max(100*time.Millisecond, time.Duration(r.lease)/50)
}
