package queue

import (
	"context"
	"fmt"
	"iter"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
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

// Tasks returns the tasks in this state, a few at a time. What it yields was so
// at one moment. A task whose state changes meanwhile may be missed, or come
// twice; one that is behind another task may also come twice without a change.
// All others come once. Dead letters come in the order of their deaths, and
// those in flight in that of their lease ends. After an error it ends.
//
// It reads a queue of any length without a long script. A page of 64 tasks
// takes three.
func (q *Queue) Tasks(ctx context.Context, state State) iter.Seq2[TaskInfo, error] {
	return func(yield func(TaskInfo, error) bool) {
		l := listing{queue: q, state: state, yield: yield, pace: newPace()}
		if err := l.run(ctx); err != nil {
			yield(TaskInfo{}, q.wrap("tasks", err))
		}
	}
}

// listing is one loop over Tasks.
type listing struct {
	queue   *Queue
	state   State
	yield   func(TaskInfo, error) bool
	pace    pace
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
		ids, last, err := l.queue.idPage(ctx, from, end)
		if err != nil {
			return err
		}
		end = last
		if err = l.each(ctx, ids); err != nil || l.stopped || end[0] == "" {
			return err
		}
	}
}

// idPage returns the ids that are in a place after the end of one page, and
// where this page ends. In the place of pauses, what is paused and since when
// come in turn.
func (q *Queue) idPage(ctx context.Context, from source, after [2]string) (ids []string, end [2]string, err error) {
	if err = q.ready(ctx); err != nil {
		return nil, end, err
	}
	o, _ := q.run(ctx, script.TaskList, from.place, from.half, after[0], after[1])
	ids, err = driver.Strings(o.Reply, o.Err)
	if err == nil && len(ids) < len(end) {
		err = errAnswer
	}
	if err != nil {
		return nil, end, driver.ContextErr(ctx, err)
	}
	return ids[2:], [2]string(ids[:2]), nil
}

// lookTogether is how many tasks one script reads: with a million queued, each
// is several cache misses.
const lookTogether = 32

// each yields those of these tasks that are in the state now.
func (l *listing) each(ctx context.Context, ids []string) error {
	for len(ids) > 0 {
		some, looked, err := l.queue.tasks(ctx, ids[:min(len(ids), lookTogether)], &l.pace)
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
