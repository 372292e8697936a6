package queue

import (
	"context"
	"fmt"

	"github.com/relock-go/relock"
)

// source is one place with tasks of a state. half is 0 for those whose time has
// come, and 1 for the others.
type source struct{ place, half string }

var sources = map[State][]source{
	StateReady:    {{"d", "0"}, {"s", "0"}, {"w", "0"}, {"l", "0"}},
	StateDelayed:  {{"d", "1"}, {"s", "1"}, {"w", "1"}},
	StateInFlight: {{"l", "1"}},
	StateBehind:   {{"b", "0"}, {"o", "0"}},
	StateDead:     {{"z", "0"}},
}

// listing is one loop over Tasks.
type listing struct {
	*reading

	state   State
	yield   func(TaskInfo, error) bool
	stopped bool // by the caller
}

// run yields the tasks of all places.
func (l *listing) run(ctx context.Context) error {
	from, ok := sources[l.state]
	if !ok {
		return fmt.Errorf("%w: state: there is no %.40q", relock.ErrInvalid, l.state)
	}
	for _, one := range from {
		if err := l.place(ctx, one); err != nil || l.stopped {
			return err
		}
	}
	return nil
}

// place yields the tasks of one place.
func (l *listing) place(ctx context.Context, from source) error {
	for end := [2]string{}; ; {
		ids, last, err := l.ids(ctx, from, end)
		if err != nil {
			return err
		}
		end = last
		if err = l.each(ctx, ids); err != nil || l.stopped || end[0] == "" {
			return err
		}
	}
}

// lookTogether is how many tasks one script reads: with a million queued, each
// is several cache misses.
const lookTogether = 32

// each yields those of these tasks that are in the state now.
func (l *listing) each(ctx context.Context, ids []string) error {
	for len(ids) > 0 {
		some, looked, err := l.tasks(ctx, ids[:min(len(ids), lookTogether)])
		if err != nil {
			return err
		}
		for _, t := range some {
			if t.State == l.state && !l.yield(t, nil) {
				l.stopped = true
				return nil
			}
		}
		ids = ids[looked:]
	}
	return nil
}
