// Package suspend notices that the machine was suspended.
//
// Such a machine goes on where it stood: its monotonic clock, by which belief is counted, has missed that time. On Linux
// another clock counts it too; the difference of both is how long the machine has slept.
package suspend

import "time"

const (
	// Most is how much the machine may have slept without a loss: clocks are not exact.
	Most = 250 * time.Millisecond
	// Pause is how long a hold may go unwatched that nobody asks.
	Pause = 250 * time.Millisecond
)

// origin is what Awake counts from.
var origin = time.Now()

// Awake is the time by the monotonic clock, which stands still while the machine is suspended.
func Awake() time.Duration { return time.Since(origin) }

// Watch compares two clocks. Its caller has a mutex, under which it marks what is lost in one step with asking.
type Watch struct {
	// The two clocks, from any point on: with the time that the machine slept, and without.
	all, awake func() time.Duration

	before time.Duration // how long it has slept in all, at most
	woke   time.Time     // when a sleep was noticed last; zero when none was
}

// NewWatch begins to watch clocks, which are [WithSleep] and [Awake] but in tests.
func NewWatch(all, awake func() time.Duration) *Watch {
	w := &Watch{all: all, awake: awake}
	w.before = w.most()
	return w
}

// Slept says whether the machine has slept for more than [Most] since it was last said so.
func (w *Watch) Slept() bool {
	if w.least()-w.before <= Most {
		w.before = min(w.before, w.most()) // it may be too high, when the process was stopped between the readings
		return false
	}
	w.before, w.woke = w.most(), time.Now()
	return true
}

// Since says whether a sleep was noticed after then.
func (w *Watch) Since(then time.Time) bool { return !w.woke.IsZero() && then.Before(w.woke) }

// least and most are how long the machine has slept in all. The clocks are read one after the other, and the process may be
// stopped in between: the order makes one too low then, and the other too high, and no sleep of it.
func (w *Watch) least() time.Duration {
	all := w.all()
	return all - w.awake()
}

func (w *Watch) most() time.Duration {
	awake := w.awake()
	return w.all() - awake
}
