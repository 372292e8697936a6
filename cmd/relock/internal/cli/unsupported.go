//go:build !linux && !darwin

package cli

import (
	"errors"
	"io"
)

// guardVariable is never set on this system.
const guardVariable = "RELOCK_GUARD"

func guardMain(string, []string) int { return codeFailed }

// run needs process groups, signals and pipes of Unix.
func (*runner) run(io.Writer) error {
	return errors.New("run is for Linux and macOS only: there is no guard for this system yet")
}
