package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/display"
)

// lister is relock ls.
type lister struct {
	*connection

	pattern, sort   string
	limit           int
	longest, period seconds
	output          output
}

const listHelp = `Lists the locks whose names match PATTERN, by default all. The pattern is that
of SCAN: * matches any text, ? one character, and [ab] one of these.

HOLDER is the label, host and process that the holder wrote. AGE is since when
it holds, by its own clock. LEFT is how long the lock stays without a renewal: if
it falls below two thirds of the lease, the holder does not renew. WAITING counts
waiters, and OLDEST-WAIT is the longest wait of the first 128 of them.

ls reads all keys of the database, a few at a time. --for and --limit end it
earlier. What it did not read is missing, and stderr has a line about it.`

func newList(c *connection) *cobra.Command {
	l := &lister{connection: c, pattern: "*", sort: "waiting", limit: 1000, longest: seconds(5 * time.Second)}
	cmd := &cobra.Command{
		Use:                   "ls [flags] [PATTERN]",
		Short:                 "List locks, their holders and waiters",
		Long:                  listHelp,
		Args:                  cobra.MaximumNArgs(1),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				l.pattern = args[0]
			}
			return l.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&l.sort, "sort", l.sort, "order: waiting (the longest wait first), age or key")
	flags.IntVar(&l.limit, "limit", l.limit, "list at most so many locks")
	flags.Var(&l.longest, "for", "read for at most this long; 0 is without limit")
	flags.Var(&l.period, "watch", "read again after this long, and redraw (without a value: 2s)")
	flags.Lookup("watch").NoOptDefVal = "2s"
	l.output.addFlag(flags)
	return cmd
}

// orders are the values of --sort.
var orders = map[string]func(a, b relock.Info) int{
	"waiting": func(a, b relock.Info) int { return cmp.Compare(display.LongestWait(b), display.LongestWait(a)) },
	"age":     func(a, b relock.Info) int { return sinceOf(a).Compare(sinceOf(b)) },
	"key":     func(_, _ relock.Info) int { return 0 },
}

func (l *lister) check() error {
	switch {
	case orders[l.sort] == nil:
		return fmt.Errorf("--sort: %q is not waiting, age or key", l.sort)
	case l.limit < 1:
		return fmt.Errorf("--limit: %d is below 1", l.limit)
	case l.period > 0 && l.output == asJSON:
		return errors.New("--watch: needs a table")
	}
	return nil
}

func (l *lister) run(cmd *cobra.Command) error {
	if err := l.check(); err != nil {
		return err
	}
	return l.with(cmd.ErrOrStderr(), func(client *relock.Client) error { return l.repeat(cmd, client) })
}

// repeat prints one reading after the other, or a single one.
func (l *lister) repeat(cmd *cobra.Command, client *relock.Client) error {
	for {
		err := l.once(cmd, client)
		if l.period == 0 || err != nil && !relock.IsRetryableErr(err) {
			return err
		}
		say(cmd.ErrOrStderr(), err)
		time.Sleep(time.Duration(l.period))
	}
}

// once prints one reading, also if it is cut off by an error.
func (l *lister) once(cmd *cobra.Command, client *relock.Client) error {
	r, err := l.read(cmd.Context(), client)
	slices.SortFunc(r.locks, func(a, b relock.Info) int {
		return cmp.Or(orders[l.sort](a, b), cmp.Compare(a.Key, b.Key))
	})
	out := cmd.OutOrStdout()
	if l.period > 0 && isTerminal(out) {
		_, _ = io.WriteString(out, "\x1b[H\x1b[2J") // to the corner, and clear
	}
	if failed := l.output.list(out, r.locks, time.Now()); failed != nil {
		return failed
	}
	for _, note := range r.notes {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "relock: %s\n", note) // nobody can be told that stderr is closed
	}
	return err
}

// readout is what ls has read.
type readout struct {
	locks []relock.Info
	notes []string // what is missing
}

func (l *lister) read(ctx context.Context, client *relock.Client) (r readout, err error) {
	whole, cancel := ctx, func() {}
	if l.longest > 0 {
		whole, cancel = context.WithTimeout(ctx, time.Duration(l.longest))
	}
	defer cancel()
	alien := 0
	for info, failed := range client.List(whole, l.pattern) {
		switch {
		case errors.Is(failed, relock.ErrKeyConflict):
			alien++
		case failed != nil && whole.Err() != nil && ctx.Err() == nil:
			r.note("stopped after %v; %d locks so far, see --for", time.Duration(l.longest), len(r.locks))
		case failed != nil:
			err = failed
		case len(r.locks) == l.limit:
			r.note("stopped at %d locks, see --limit", l.limit)
			return r, nil
		default:
			r.locks = append(r.locks, info)
		}
	}
	if alien > 0 {
		r.note("not locks of this version: %d keys", alien)
	}
	return r, err
}

func (r *readout) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// isTerminal reports whether a person reads this.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
