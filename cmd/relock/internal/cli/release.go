package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/relock-go/relock"
)

// releaser is relock release.
type releaser struct {
	*connection

	force, atOnce  bool
	reason, holder string
}

const releaseHelp = `Ends the hold of the lock KEY, whichever client has it, and hands the lock to the
next waiter. Do so if you know that the holder hangs. Of a semaphore, or of
readers, it ends all holds.

First the hold is marked, so that nothing extends it. Then the command waits:
until the holder has learned of it, after a third of its lease at most, or until
the lease has ended, if the holder is dead. The holder's error has the reason. INT ends the wait, not the
mark: the error has the time at which the hold ends.

With --without-ack the command does not wait. Two may then have the lock, until
the holder learns of it: only fencing tokens keep it from writing meanwhile.

With --if-held-by the lock is read first, and another holder is left alone. One
that gets the lock between the two requests is ended.

Exit code: 0 if the hold was ended; 75 if another holder has the lock; 125 if
nobody has it, the wait was ended, or relock has failed. It may be repeated: it
never ends the next hold.`

func newRelease(c *connection) *cobra.Command {
	r := &releaser{connection: c}
	cmd := &cobra.Command{
		Use:                   "release --force --reason TEXT [flags] KEY",
		Short:                 "End the hold of a lock",
		Long:                  releaseHelp,
		Args:                  cobra.ExactArgs(1),
		ValidArgsFunction:     c.completeKey,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !r.force || r.reason == "" {
				return errors.New("release: needs --force and --reason, see relock release --help")
			}
			return r.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&r.force, "force", false, "end the hold of somebody else")
	flags.BoolVar(&r.atOnce, "without-ack", false, "free the lock immediately, while the holder may go on")
	flags.StringVar(&r.reason, "reason", "", "why, for the holder's error; up to 256 bytes")
	flags.StringVar(&r.holder, "if-held-by", "", "only if this HOST:PID is the holder, as ls shows it")
	return cmd
}

func (r *releaser) run(cmd *cobra.Command, key string) error {
	return r.with(cmd.ErrOrStderr(), func(client *relock.Client) error { return r.release(cmd, client, key) })
}

func (r *releaser) release(cmd *cobra.Command, client *relock.Client, key string) error {
	ctx := cmd.Context()
	before, err := client.Inspect(ctx, key)
	if err != nil {
		return err
	}
	if err := r.check(before); err != nil {
		return err
	}
	var opts []relock.ForceOption
	if r.atOnce {
		opts = append(opts, relock.WithoutAck())
	}
	if err := client.ForceUnlock(ctx, key, r.reason, opts...); err != nil {
		return err
	}
	report(ctx, cmd.OutOrStdout(), client, before)
	return nil
}

// check returns an error if another holder has the lock than the one that was
// named.
func (r *releaser) check(i relock.Info) error {
	if r.holder == "" || i.Holder != nil && i.State == relock.StateHeld && address(*i.Holder) == r.holder {
		return nil
	}
	has := quoted(holdersOf(i))
	return exit(codeBusy, fmt.Errorf("release: the lock is %s, and not held by %s: %s", i.State, quoted(r.holder), has))
}

// report prints whose hold was ended, and the state of the lock now.
func report(ctx context.Context, to io.Writer, client *relock.Client, before relock.Info) {
	_, _ = fmt.Fprintf(to, "ended: %s was %s, holder %s, for %s; %d waited\n",
		quoted(before.Key), before.State, // the hold is ended, whether stdout is closed or not
		word(holdersOf(before)), word(ageOf(before, time.Now())), before.Waiting)
	if after, err := client.Inspect(ctx, before.Key); err == nil {
		_, _ = fmt.Fprintf(to, "now: %s, holder %s, left %s\n", after.State, word(holdersOf(after)), word(leftOf(after)))
	}
}

// word is a cell of a line.
func word(text string) string {
	if text == "" {
		return "-"
	}
	return quoted(text)
}
