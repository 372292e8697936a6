// Package competition has what the examples on Redis and on etcd share: processes whose goroutines all take the same lock once, the turns that
// came of it, and what may be wrong with them.
package competition

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// How many compete.
const (
	Processes  = 3
	Goroutines = 10 // of each
)

// The two sorts of locks.
const (
	Unfair = "unfair"
	Fair   = "fair"
)

// Turn is when one goroutine had the lock, by the clock of the machine, in nanoseconds.
type Turn struct {
	Process, Goroutine int
	Asked              int64 // less than that of who asked later
	Place              int64 // less than that of who comes later, where the lock is fair
	From, To           int64
}

// Run lets the processes compete for an unfair lock and for a fair one, shows their turns and checks them. The column of the places has this
// heading; it is left out without one.
func Run(out io.Writer, place string, compete func(mode string) ([]Turn, error)) error {
	for _, mode := range []string{Unfair, Fair} {
		turns, err := compete(mode)
		if err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		if _, err := io.WriteString(out, Show(mode, place, turns)); err != nil {
			return err
		}
		if err := Check(mode, turns); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
	}
	return nil
}

// Collect reads what the processes have written, a turn a line, and returns all turns in the order in which they began.
func Collect(outputs ...io.Reader) (all []Turn, err error) {
	for _, output := range outputs {
		for lines := json.NewDecoder(output); lines.More(); {
			var t Turn
			if err := lines.Decode(&t); err != nil {
				return nil, err
			}
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b Turn) int { return cmp.Compare(a.From, b.From) })
	return all, nil
}

// Check finds a turn that is missing, two that had the lock at once, and a fair lock that was not granted by place. The turns are in the order
// in which they began.
func Check(mode string, turns []Turn) error {
	if len(turns) != Processes*Goroutines {
		return fmt.Errorf("%d of %d had the lock", len(turns), Processes*Goroutines)
	}
	for i, t := range turns[1:] {
		before := turns[i]
		if t.From < before.To {
			return errors.New("two had the lock at once")
		}
		if mode == Fair && t.Place < before.Place {
			return errors.New("somebody has overtaken another")
		}
	}
	return nil
}
