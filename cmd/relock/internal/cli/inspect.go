package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/display"
)

const inspectHelp = `Prints the state of the lock KEY: its holders, since when, for how long without
a renewal, and its waiters in order of arrival. A lock that nobody holds is free,
which is no error.`

func newInspect(c *connection) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:                   "inspect [flags] KEY",
		Short:                 "Print the holders and waiters of a lock",
		Long:                  inspectHelp,
		Args:                  cobra.ExactArgs(1),
		ValidArgsFunction:     c.completeKey,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.ErrOrStderr(), func(client *relock.Client) error {
				info, err := client.Inspect(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return o.one(cmd.OutOrStdout(), info, time.Now())
			})
		},
	}
	o.addFlag(cmd.Flags())
	return cmd
}

// one writes a lock in full.
func (o *output) one(to io.Writer, i relock.Info, now time.Time) error {
	if *o == asJSON {
		return writeJSON(to, []relock.Info{i}, display.ToLockRow)
	}
	t := newTable(to, "key:", i.Key)
	t.row("state:", stateOf(i))
	if i.State != relock.StateFree {
		t.row("kind:", kindOf(i))
		t.row("left:", leftOf(i))
	}
	t.row("fence:", strconv.FormatInt(i.Fence, 10))
	for _, h := range display.Holders(i) {
		since := h.Since.Format(time.RFC3339)
		t.row("holder:", nameOf(h), "since", since, "client", h.Client, "owner", h.Owner, "levels", strconv.Itoa(h.Count))
	}
	t.row("waiting:", strconv.Itoa(i.Waiting))
	for _, w := range i.Waiters {
		t.row("waiter:", "client", w.Client, "since", now.Add(-w.Age).Format(time.RFC3339), "for", brief(w.Age))
	}
	if hidden := i.Waiting - len(i.Waiters); hidden > 0 {
		t.row("waiter:", fmt.Sprintf("+%d", hidden))
	}
	return t.flush()
}
