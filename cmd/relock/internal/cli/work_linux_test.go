package cli

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/relock-go/relock/internal/test/faults"
)

// workWord is the first argument of a test binary that is a command under the
// lock.
const workWord = "work-under-the-lock"

// turn is one command under the lock: when it ran, by a clock that processes
// share.
type turn struct{ Fence, From, Last int64 }

// work writes a turn to a file, over and over, so that its end is known however
// it ends. Arguments: the file, how long to work, and whether to ignore TERM.
func work(args []string) int {
	t := turn{From: faults.Now()}
	if err := t.run(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (t *turn) run(args []string) error {
	file, err := os.Create(args[0])
	if err != nil {
		return err
	}
	length, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	if args[2] == "stubborn" {
		signal.Ignore(unix.SIGTERM)
	}
	if t.Fence, err = strconv.ParseInt(os.Getenv("RELOCK_FENCE"), 10, 64); err != nil {
		return err
	}
	for t.Last = t.From; t.Last-t.From < int64(length); t.Last = faults.Now() {
		if err := t.write(file); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return t.write(file)
}

func (t *turn) write(file *os.File) error {
	raw, err := binary.Append(nil, binary.LittleEndian, *t)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(raw, 0)
	return err
}

// readTurn reads a turn. It reports whether the command has begun.
func readTurn(path string) (t turn, begun bool) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return t, false
	}
	_, err = binary.Decode(raw, binary.LittleEndian, &t)
	return t, err == nil
}
