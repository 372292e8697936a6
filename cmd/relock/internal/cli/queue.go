package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/display"
	"github.com/relock-go/relock/queue"
)

// maxLetters is how many dead letters a queue keeps at most.
const maxLetters = 10_000_000

const queueHelp = `Shows task queues, their tasks, and dead letters, which are tasks that had all
their attempts. Queues dead letters once more, removes tasks, or pauses a queue. A
queue that nobody has used is empty, which is no error.`

func newQueue(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Show, steer and pause task queues",
		Long:  queueHelp,
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("queue: needs a command, see relock queue --help")
		},
	}
	cmd.AddCommand(
		newQueueList(c), newQueueStats(c), newQueueTasks(c), newQueueDead(c),
		newQueueRequeue(c), newQueueRemove(c), newQueuePause(c), newQueueResume(c),
		newQueuePaused(c),
	)
	return cmd
}

// readerOf returns the queue of this name. Its settings are those of a reader:
// workers may keep fewer dead letters, and delete the others in time.
func readerOf(name string, client *relock.Client) (*queue.Queue, error) {
	return queue.New(name, client, queue.WithDeadLetterLimit(maxLetters, longest))
}

// withQueue calls f with the queue of this name.
func (c *connection) withQueue(stderr io.Writer, name string, f func(*queue.Queue) error) error {
	return c.with(stderr, func(client *relock.Client) error {
		q, err := readerOf(name, client)
		if err != nil {
			return err
		}
		return f(q)
	})
}

const queueStatsHelp = `Counts the tasks of the queue NAME. READY are due, DELAYED are due later, and
BEHIND wait for an earlier task of their key, or for a lock. IN-FLIGHT are being
processed, and DEAD are dead letters. IDLE counts receivers that wait for a task,
and OLDEST is for how long the oldest ready task has been due. PAUSED is all, or
how many keys are.`

func newQueueStats(c *connection) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:                   "stats [flags] NAME",
		Short:                 "Count the tasks of a queue",
		Long:                  queueStatsHelp,
		Args:                  cobra.ExactArgs(1),
		ValidArgsFunction:     c.completeQueue,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withQueue(cmd.ErrOrStderr(), args[0], func(q *queue.Queue) error {
				s, err := q.Stats(cmd.Context())
				if err != nil {
					return err
				}
				return o.queues(cmd.OutOrStdout(), []counted{{q.Name(), s}})
			})
		},
	}
	o.addFlag(cmd.Flags())
	return cmd
}

func (o *output) queues(to io.Writer, all []counted) error {
	if *o == asJSON {
		return writeJSON(to, all, func(s counted) display.QueueRow { return display.ToQueueRow(s.name, s.Stats) })
	}
	t := newTable(to, "QUEUE", "READY", "DELAYED", "IN-FLIGHT", "BEHIND", "DEAD", "IDLE", "OLDEST", "PAUSED")
	for _, s := range all {
		cells := []string{s.name}
		for _, n := range []int{s.Ready, s.Delayed, s.InFlight, s.Behind, s.Dead, s.Idle} {
			cells = append(cells, strconv.Itoa(n))
		}
		t.row(append(cells, oldestOf(s.Stats), pausedOf(s.Stats))...)
	}
	return t.flush()
}

func oldestOf(s queue.Stats) string {
	if s.Ready == 0 {
		return ""
	}
	return brief(s.Oldest)
}

func pausedOf(s queue.Stats) string {
	switch {
	case s.Paused:
		return "all"
	case s.PausedKeys > 0:
		return strconv.Itoa(s.PausedKeys)
	}
	return ""
}

const queueDeadHelp = `Lists the dead letters of the queue NAME, the oldest first. DIED is how long ago
the last attempt ended. INTERRUPTED counts attempts whose process was gone. BYTES
is the size of the payload, which is not shown.

Letters that are over the limit of the workers are listed until one deletes them.`

func newQueueDead(c *connection) *cobra.Command {
	var o output
	limit := 100
	cmd := &cobra.Command{
		Use:                   "dead [flags] NAME",
		Short:                 "List the dead letters of a queue",
		Long:                  queueDeadHelp,
		Args:                  cobra.ExactArgs(1),
		ValidArgsFunction:     c.completeQueue,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return fmt.Errorf("--limit: %d is below 1", limit)
			}
			return c.withQueue(cmd.ErrOrStderr(), args[0], func(q *queue.Queue) error {
				letters, cut, err := upTo(nil, limit, q.DeadLetters(cmd.Context()))
				if failed := o.letters(cmd.OutOrStdout(), letters, time.Now()); failed != nil {
					return failed
				}
				if cut {
					noteCut(cmd, limit, "dead letters")
				}
				return err
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "list at most so many dead letters")
	o.addFlag(cmd.Flags())
	return cmd
}

// noteCut notes that a list has ended at its limit.
func noteCut(cmd *cobra.Command, limit int, what string) {
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "relock: stopped at %d %s, see --limit\n", limit, what) // stderr may be closed
}

// upTo adds what comes to all, up to limit, also that before an error. It
// reports whether there is more.
func upTo[T any](all []T, limit int, from iter.Seq2[T, error]) (_ []T, cut bool, _ error) {
	for one, err := range from {
		switch {
		case err != nil:
			return all, false, err
		case len(all) == limit:
			return all, true, nil
		}
		all = append(all, one)
	}
	return all, false, nil
}

func (o *output) letters(to io.Writer, letters []queue.DeadTask, now time.Time) error {
	if *o == asJSON {
		return writeJSON(to, letters, display.ToLetterRow)
	}
	t := newTable(to, "ID", "KEY", "DIED", "ATTEMPTS", "INTERRUPTED", "BYTES", "REASON")
	for _, l := range letters {
		t.row(l.ID, l.Key, brief(max(0, now.Sub(l.DiedAt))), strconv.Itoa(l.Attempts), strconv.Itoa(l.Interruptions),
			strconv.Itoa(len(l.Payload)), l.Reason)
	}
	return t.flush()
}

const queueChangeHelp = `

Prints a line for each ID, in their order. It goes on after one that it cannot
change, and stops at an error of the server: the rest is not tried then.

Exit code: 0 if all were changed; 75 if the others are in flight; otherwise 125.`

func newQueueRequeue(c *connection) *cobra.Command {
	return c.newChange(&cobra.Command{
		Use:   "requeue [flags] NAME ID...",
		Short: "Queue dead letters once more",
		Long: `Queues dead letters of the queue NAME once more, as new tasks with the same IDs,
due immediately. They have all their attempts again. If a connection broke
meanwhile, "not-found" may be one that was requeued.` + queueChangeHelp,
	}, "requeued", func(ctx context.Context, q *queue.Queue, id string) error {
		n, err := q.Requeue(ctx, id)
		if err == nil && n == 0 {
			err = queue.ErrNotFound
		}
		return err
	})
}

func newQueueRemove(c *connection) *cobra.Command {
	return c.newChange(&cobra.Command{
		Use:   "remove [flags] NAME ID...",
		Short: "Remove dead letters, or tasks that wait",
		Long: `Removes tasks of the queue NAME for ever: dead letters, or tasks that wait. One
that is being processed is in flight, and stays.` + queueChangeHelp,
	}, "removed", func(ctx context.Context, q *queue.Queue, id string) error { return q.Remove(ctx, id) })
}

// changed is what became of a task.
type changed struct{ id, result string }

// newChange completes a command that changes tasks by their IDs.
func (c *connection) newChange(cmd *cobra.Command, done string,
	change func(context.Context, *queue.Queue, string) error,
) *cobra.Command {
	var o output
	cmd.Args = cobra.MinimumNArgs(2)
	cmd.ValidArgsFunction = c.completeLetter
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids := args[1:]
		if slices.Contains(ids, "") {
			return fmt.Errorf("queue %s: an ID is empty", cmd.Name())
		}
		return c.withQueue(cmd.ErrOrStderr(), args[0], func(q *queue.Queue) error {
			all, err := changeEach(ids, done, func(id string) error { return change(cmd.Context(), q, id) })
			if failed := o.changes(cmd.OutOrStdout(), all); failed != nil {
				return failed
			}
			return err
		})
	}
	o.addFlag(cmd.Flags())
	return cmd
}

// changeEach changes one task after the other. It stops at an error that the
// next one would have, too.
func changeEach(ids []string, done string, change func(id string) error) (all []changed, err error) {
	absent, busy := 0, 0
	for n, id := range ids {
		result := done
		switch err := change(id); {
		case err == nil:
		case errors.Is(err, relock.ErrUnconfirmed), !errors.Is(err, queue.ErrNotFound) && !errors.Is(err, queue.ErrInFlight):
			if result = "failed"; errors.Is(err, relock.ErrUnconfirmed) {
				result = "unconfirmed"
			}
			return append(all, changed{id, result}), fmt.Errorf("%w; %d not tried", err, len(ids)-n-1)
		case errors.Is(err, queue.ErrNotFound):
			result = "not-found"
			absent++
		default:
			result = "in-flight"
			busy++
		}
		all = append(all, changed{id, result})
	}
	if absent+busy == 0 {
		return all, nil
	}
	code := codeFailed
	if absent == 0 {
		code = codeBusy
	}
	return all, exit(code,
		fmt.Errorf("queue: %d of %d not %s: %d not found, %d in flight", absent+busy, len(ids), done, absent, busy))
}

func (o *output) changes(to io.Writer, all []changed) error {
	if *o == asJSON {
		return writeJSON(to, all, func(c changed) changedRow { return changedRow{c.id, c.result} })
	}
	t := newTable(to, "ID", "RESULT")
	for _, one := range all {
		t.row(one.id, one.result)
	}
	return t.flush()
}
