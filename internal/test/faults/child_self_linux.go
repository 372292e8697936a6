package faults

import (
	"bufio"
	"fmt"
	"os"
	"sync"
)

// roleVariable is the environment variable with the role of a helper process.
const roleVariable = "RELOCK_TEST_CHILD"

// Role is what a helper process does, from its start to its end.
type Role func(*Self) error

// Self is a helper process as its role sees it.
type Self struct {
	Args     []string
	Commands <-chan string // the lines that the test sends; closed when the process is to end

	mu sync.Mutex
}

// RunChild runs the role and ends the process, if Spawn started it. Call it
// first in TestMain.
func RunChild(roles map[string]Role) {
	name := os.Getenv(roleVariable)
	if name == "" {
		return
	}
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "there is no role %q\n", name)
		os.Exit(1)
	}
	if err := role(&Self{Args: os.Args[2:], Commands: readCommands()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func readCommands() <-chan string {
	commands := make(chan string)
	go func() {
		defer close(commands)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			commands <- lines.Text()
		}
	}()
	return commands
}

// Emit reports an event to the test. The event is written before Emit returns,
// so it is not lost if the process is killed.
func (s *Self) Emit(name string, values ...any) {
	line := formatEvent(Now(), name, values)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = os.Stdout.WriteString(line) // the test may have ended
}
