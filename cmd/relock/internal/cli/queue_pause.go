package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/relock-go/relock/internal/display"
	"github.com/relock-go/relock/queue"
)

const queuePauseHelp = `Stops the deliveries of the queue NAME, or of its tasks with this key, until relock
queue resume. What is in flight goes on, and tasks may be enqueued.`

func newQueuePause(c *connection) *cobra.Command {
	return c.newSwitch(&cobra.Command{
		Use:   "pause NAME [KEY]",
		Short: "Stop the deliveries of a queue, or of a key of it",
		Long:  queuePauseHelp,
	}, (*queue.Queue).Pause, (*queue.Queue).PauseKey)
}

const queueResumeHelp = `Ends a pause of the queue NAME, or of its tasks with this key. Workers start soon
after. What is not paused stays so.`

func newQueueResume(c *connection) *cobra.Command {
	cmd := c.newSwitch(&cobra.Command{
		Use:   "resume NAME [KEY]",
		Short: "End a pause of a queue, or of a key of it",
		Long:  queueResumeHelp,
	}, (*queue.Queue).Resume, (*queue.Queue).ResumeKey)
	cmd.ValidArgsFunction = c.completePaused
	return cmd
}

// newSwitch completes a command that changes a queue, or a key of it.
func (c *connection) newSwitch(
	cmd *cobra.Command, whole func(*queue.Queue, context.Context) error, key func(*queue.Queue, context.Context,
		string) error,
) *cobra.Command {
	cmd.Args = cobra.RangeArgs(1, 2)
	cmd.ValidArgsFunction = c.completeQueue
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withQueue(cmd.ErrOrStderr(), args[0], func(q *queue.Queue) error {
			if len(args) == 1 {
				return whole(q, cmd.Context())
			}
			return key(q, cmd.Context(), args[1])
		})
	}
	return cmd
}

const queuePausedHelp = `Lists the keys of the queue NAME that are paused, those for the longest time
first. AGE is for how long. If the queue itself is paused, relock queue stats has
all in its column PAUSED.`

func newQueuePaused(c *connection) *cobra.Command {
	var o output
	limit := 100
	cmd := &cobra.Command{
		Use:                   "paused [flags] NAME",
		Short:                 "List the paused keys of a queue",
		Long:                  queuePausedHelp,
		Args:                  cobra.ExactArgs(1),
		ValidArgsFunction:     c.completeQueue,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return fmt.Errorf("--limit: %d is below 1", limit)
			}
			return c.withQueue(cmd.ErrOrStderr(), args[0], func(q *queue.Queue) error {
				keys, cut, err := upTo(nil, limit, q.PausedKeys(cmd.Context()))
				slices.SortFunc(keys, func(a, b queue.PausedKey) int { return a.Since.Compare(b.Since) })
				if failed := o.paused(cmd.OutOrStdout(), keys, time.Now()); failed != nil {
					return failed
				}
				if cut {
					noteCut(cmd, limit, "paused keys")
				}
				return err
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "list at most so many keys")
	o.addFlag(cmd.Flags())
	return cmd
}

func (o *output) paused(to io.Writer, keys []queue.PausedKey, now time.Time) error {
	if *o == asJSON {
		return writeJSON(to, keys, display.ToPausedRow)
	}
	t := newTable(to, "KEY", "AGE")
	for _, k := range keys {
		t.row(k.Key, brief(max(0, now.Sub(k.Since))))
	}
	return t.flush()
}
