package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/display"
	"github.com/relock-go/relock/queue"
)

const queueListHelp = `Lists the task queues of the prefix by their names, with the columns of relock
queue stats. It reads all keys of the database, a few at a time.`

func newQueueList(c *connection) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:                   "ls [flags]",
		Short:                 "List task queues",
		Long:                  queueListHelp,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.ErrOrStderr(), func(client *relock.Client) error {
				all, err := readQueues(cmd.Context(), client)
				if failed := o.queues(cmd.OutOrStdout(), all); failed != nil {
					return failed
				}
				return err
			})
		},
	}
	o.addFlag(cmd.Flags())
	return cmd
}

// counted is a queue with its counts.
type counted struct {
	name string
	queue.Stats
}

// readQueues returns all queues in the order of their names, also those before
// an error.
func readQueues(ctx context.Context, client *relock.Client) (all []counted, err error) {
	for name, failed := range queue.List(ctx, client) {
		q, again := readerOf(name, client)
		if failed = errors.Join(failed, again); failed != nil {
			return all, failed
		}
		s, err := q.Stats(ctx)
		if err != nil {
			return all, err
		}
		all = append(all, counted{name, s})
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// states are the values of --state, in the order in which they are listed.
var states = []struct {
	name  string
	state queue.State
}{
	{"in-flight", queue.StateInFlight},
	{"ready", queue.StateReady},
	{"behind", queue.StateBehind},
	{"delayed", queue.StateDelayed},
	{"dead", queue.StateDead},
}

// looker is relock queue tasks.
type looker struct {
	*connection

	state  string
	limit  int
	output output
}

const queueTasksHelp = `Lists the tasks of the queue NAME, or those with these IDs. STATE is in-flight,
ready, behind, delayed or dead; --state chooses one.

AGE is for how long a task is in flight, or has been due, or is dead. DUE-IN is
when a delayed one is due. HOLDER is the client that has it in flight. BEHIND is
what it waits for: task:ID is an earlier task of its key, lock:NAME a lock of
WithLocker, and pause a pause of its key or of the queue. LAST-ERROR is why the
last attempt has failed. No payload is shown.

A task that changes its state meanwhile may be missing, or be there twice.
Exit code: 125 if there is no task with one of the IDs.`

func newQueueTasks(c *connection) *cobra.Command {
	l := &looker{connection: c, limit: 100}
	cmd := &cobra.Command{
		Use:                   "tasks [flags] NAME [ID...]",
		Short:                 "List tasks of a queue, and what they wait for",
		Long:                  queueTasksHelp,
		Args:                  cobra.MinimumNArgs(1),
		ValidArgsFunction:     c.completeQueue,
		DisableFlagsInUseLine: true,
		RunE:                  l.run,
	}
	cmd.Flags().StringVar(&l.state, "state", "", "list the tasks in this state only")
	cmd.Flags().IntVar(&l.limit, "limit", l.limit, "list at most so many tasks")
	l.output.addFlag(cmd.Flags())
	return cmd
}

func (l *looker) run(cmd *cobra.Command, args []string) error {
	ids := args[1:]
	chosen, err := l.chosen()
	switch {
	case err != nil:
		return err
	case l.limit < 1:
		return fmt.Errorf("--limit: %d is below 1", l.limit)
	case len(ids) > 0 && l.state != "":
		return errors.New("--state: is for tasks without IDs")
	case slices.Contains(ids, ""):
		return errors.New("queue tasks: an ID is empty")
	}
	return l.withQueue(cmd.ErrOrStderr(), args[0], func(q *queue.Queue) error {
		var all []queue.TaskInfo
		var cut bool
		if len(ids) > 0 {
			all, err = getEach(cmd.Context(), q, ids)
		} else {
			all, cut, err = readTasks(cmd.Context(), q, chosen, l.limit)
		}
		if failed := l.output.tasks(cmd.OutOrStdout(), all, time.Now()); failed != nil {
			return failed
		}
		if cut {
			noteCut(cmd, l.limit, "tasks")
		}
		return err
	})
}

// chosen returns the states to list.
func (l *looker) chosen() (some []queue.State, err error) {
	for _, one := range states {
		if l.state == "" || l.state == one.name {
			some = append(some, one.state)
		}
	}
	if len(some) == 0 {
		return nil, fmt.Errorf("--state: %q is not in-flight, ready, behind, delayed or dead", l.state)
	}
	return some, nil
}

// getEach returns the tasks with these IDs. Those that are not there are an
// error, after the others.
func getEach(ctx context.Context, q *queue.Queue, ids []string) (all []queue.TaskInfo, err error) {
	for _, id := range ids {
		one, err := q.Get(ctx, id)
		switch {
		case err == nil:
			all = append(all, one)
		case !errors.Is(err, queue.ErrNotFound):
			return all, err
		}
	}
	if absent := len(ids) - len(all); absent > 0 {
		err = fmt.Errorf("queue: %d of %d tasks not found", absent, len(ids))
	}
	return all, err
}

// readTasks returns up to limit tasks, also those before an error. It reports
// whether there are more.
func readTasks(
	ctx context.Context, q *queue.Queue, from []queue.State, limit int,
) (all []queue.TaskInfo, cut bool, err error) {
	for _, state := range from {
		if all, cut, err = upTo(all, limit, q.Tasks(ctx, state)); cut || err != nil {
			break
		}
	}
	return all, cut, err
}

func (o *output) tasks(to io.Writer, all []queue.TaskInfo, now time.Time) error {
	if *o == asJSON {
		return writeJSON(to, all, display.ToTaskRow)
	}
	t := newTable(to, "ID", "KEY", "STATE", "AGE", "DUE-IN", "ATTEMPTS", "HOLDER", "BEHIND", "LAST-ERROR")
	for _, one := range all {
		holder := ""
		if one.Holder != nil {
			holder = nameOf(*one.Holder)
		}
		t.row(one.ID, one.Key, display.StateOf(one.State), ageOfTask(one, now), dueOf(one, now),
			strconv.Itoa(one.Attempts), holder,
			behindOf(one), one.LastError)
	}
	return t.flush()
}

// ageOfTask compares the server's clock with ours, which may be behind.
func ageOfTask(t queue.TaskInfo, now time.Time) string {
	var since time.Time
	switch {
	case t.State == queue.StateReady:
		since = t.Due
	case t.State == queue.StateDead:
		since = t.DiedAt
	case t.Holder != nil:
		since = t.Holder.Since
	}
	if since.IsZero() {
		return ""
	}
	return brief(max(0, now.Sub(since)))
}

func dueOf(t queue.TaskInfo, now time.Time) string {
	if t.State != queue.StateDelayed {
		return ""
	}
	return brief(max(0, t.Due.Sub(now)))
}

func behindOf(t queue.TaskInfo) string {
	switch {
	case t.Before != "":
		return "task:" + t.Before
	case t.Lock != "":
		return "lock:" + t.Lock
	case t.Paused:
		return "pause"
	}
	return ""
}
