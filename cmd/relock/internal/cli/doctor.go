package cli

import (
	"cmp"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/doctor"
)

const doctorHelp = `Checks what may keep the server from serving locks: its version and settings,
the permissions of the user, a lock, and the message of a release. Each line has
ok, warn or FAIL, what was checked, what was found, and what to do.

It uses new keys, with a lease. The settings are those of all masters.

Exit code: 0; 1 if a line is FAIL.`

// codeSick is the code of relock doctor that has found something.
const codeSick = 1

func newDoctor(c *connection) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:                   "doctor [flags]",
		Short:                 "Check the server, its settings and permissions",
		Long:                  doctorHelp,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.ErrOrStderr(), func(client *relock.Client) error {
				all := doctor.Run(cmd.Context(), client, doctor.Options{
					Prefix: cmp.Or(c.prefix, "relock:"), Timeout: time.Duration(c.timeout), Poll: 4 * time.Second,
				})
				if err := o.findings(cmd.OutOrStdout(), all); err != nil {
					return err
				}
				return verdict(all)
			})
		},
	}
	o.addFlag(cmd.Flags())
	return cmd
}

// verdict returns the exit code.
func verdict(all []doctor.Finding) error {
	for _, f := range all {
		if f.Level == doctor.Fail {
			return exit(codeSick, nil)
		}
	}
	return nil
}

// findingRow is the object of --output json.
type findingRow struct {
	Check  string `json:"check"`
	Level  string `json:"level"` // ok, warn or FAIL
	Found  string `json:"found"`
	Remedy string `json:"remedy"`
}

func (o *output) findings(to io.Writer, all []doctor.Finding) error {
	if *o == asJSON {
		return writeJSON(to, all, func(f doctor.Finding) findingRow {
			return findingRow{f.Check, string(f.Level), f.Found, f.Remedy}
		})
	}
	t := newTable(to)
	for _, f := range all {
		t.line(string(f.Level), f.Check, f.Found, f.Remedy)
	}
	return t.flush()
}
