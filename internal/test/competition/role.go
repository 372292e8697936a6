package competition

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Variable is the environment variable with the role of a competing process.
const Variable = "RELOCK_COMPETITION_WORKER"

// Role describes what one process does.
type Role struct {
	Number int // of the process, from 1
	Server string
	Mode   string
	Hold   time.Duration // for how long each goroutine has the lock
}

// ParseRole parses the value of Variable.
func ParseRole(text string) (r Role, err error) {
	var hold string
	if _, err := fmt.Fscan(strings.NewReader(text), &r.Number, &r.Server, &r.Mode, &hold); err != nil {
		return r, fmt.Errorf("role %q: %w", text, err)
	}
	r.Hold, err = time.ParseDuration(hold)
	return r, err
}

// Command returns a command that runs this program again in that role. It is
// killed when ctx is cancelled.
func (r Role) Command(ctx context.Context) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %s", Variable, r.Number, r.Server, r.Mode, r.Hold))
	cmd.Stderr = os.Stderr
	return cmd, nil
}
