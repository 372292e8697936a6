// Package competition has what the examples on Redis and on etcd share. Several
// processes compete, and each of their goroutines takes the same lock once. The
// package collects, shows and checks their turns.
package competition

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The number of competitors.
const (
	Processes  = 3
	Goroutines = 10 // of each
)

// The two modes of locks.
const (
	Unfair = "unfair"
	Fair   = "fair"
)

// Turn is the time in which one goroutine had the lock. Times are in
// nanoseconds, by the clock of the machine.
type Turn struct {
	Process, Goroutine int
	Asked              int64 // less than that of a later request
	Place              int64 // if the lock is fair, less than that of a later turn
	From, To           int64
}

// Run lets the processes compete for an unfair lock and for a fair one. It
// shows their turns and checks them. The argument place is the heading of the
// column of places. Without a heading the column is left out.
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

// Collect reads the processes' outputs, one turn a line. It returns all turns
// in the order in which they began.
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

// Check returns an error if a turn is missing, two turns overlap, or a fair
// lock was not granted by place. The turns must be in the order in which they
// began.
func Check(mode string, turns []Turn) error {
	if len(turns) != Processes*Goroutines {
		return fmt.Errorf("%d of %d had the lock", len(turns), Processes*Goroutines)
	}
	for i, t := range turns[1:] {
		before := turns[i]
		if t.From < before.To {
			return errors.New("two held the lock together")
		}
		if mode == Fair && t.Place < before.Place {
			return errors.New("a waiter has overtaken another")
		}
	}
	return nil
}
