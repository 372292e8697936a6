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

	force          bool
	reason, holder string
}

const releaseHelp = `Ends the hold of the lock KEY, whichever client has it, and hands the lock to the next
waiter. Do so if you know that the holder hangs. Of a semaphore, or of readers,
it ends all holds.

The holder's work goes on until it notices: at its next renewal, or immediately
if its process waits for a lock. Only fencing tokens keep it from writing until
then. Its error has the reason.

With --if-held-by the lock is read first, and another holder is left alone. One
that gets the lock between the two requests is ended.

Exit code: 0 if the hold was ended; 75 if another holder has the lock; 125 if
nobody has it, or relock has failed. If there was no answer, look again before
you repeat it: a second one would end the next hold.`

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
	if err := client.ForceUnlock(ctx, key, r.reason); err != nil {
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
	_, _ = fmt.Fprintf(to, "ended: %s was %s, holder %s, for %s; %d waited\n", quoted(before.Key), before.State, // the hold is ended, whether stdout is closed or not
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
