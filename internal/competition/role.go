package competition

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Variable is set in the environment of a process that competes: its role.
const Variable = "RELOCK_COMPETITION_WORKER"

// Role is what one process is to do.
type Role struct {
	Number int // of the process, from 1
	Server string
	Mode   string
	Hold   time.Duration // for how long each goroutine has the lock
}

// ParseRole reads what Variable has.
func ParseRole(text string) (r Role, err error) {
	var hold string
	if _, err := fmt.Fscan(strings.NewReader(text), &r.Number, &r.Server, &r.Mode, &hold); err != nil {
		return r, fmt.Errorf("role %q: %w", text, err)
	}
	r.Hold, err = time.ParseDuration(hold)
	return r, err
}

// Command is this program once more, in that role, until ctx ends.
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
