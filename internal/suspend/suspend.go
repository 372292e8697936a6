// Package suspend detects that the machine was suspended.
//
// The monotonic clock, by which leases are timed, stops while the machine is
// suspended. On Linux another clock of the kernel continues. The difference is
// how long the machine was suspended.
//
// Reading that clock is a system call, so it is read only every [Pause]. It is
// read earlier if the wall clock, which also continues, has moved against the
// monotonic clock. The wall clock decides nothing.
package suspend

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// most is how long the machine may be suspended without a loss, since
	// clocks are not exact.
	most = 250 * time.Millisecond
	// Pause is how long a hold may go unchecked if no caller requests its
	// validity. It is also the longest time between two readings of the
	// kernel's clock.
	Pause = 250 * time.Millisecond
	// step is how far the wall clock may move before the kernel's clock is
	// read.
	step = 10 * time.Millisecond
)

// origin is the start of awake.
var origin = time.Now()

// awake returns the time by the monotonic clock, which stands still while the
// machine is suspended.
func awake() time.Duration { return time.Since(origin) }

// Split returns the two readings in now: the wall clock and awake. now must
// come from time.Now.
func Split(now time.Time) (wall, awake time.Duration) {
	return time.Duration(now.UnixNano()), now.Sub(origin)
}

// Watch compares clocks. It is safe for concurrent use.
type Watch struct {
	all   func() time.Duration                        // includes the time that the machine was suspended
	split func(time.Time) (wall, awake time.Duration) // the wall clock, and the time without suspends
	last  atomic.Pointer[check]                       // nil while leases are marked lost

	mu     sync.Mutex    // guards what follows; held while leases are marked lost
	before time.Duration // how long the machine was suspended in total, at most
	woke   time.Time     // when a suspend was noticed last; zero if none was
}

// check is a reading of the clocks. It never changes.
type check struct {
	offset time.Duration // of the wall clock to the monotonic one, just before the kernel's clock was read
	awake  time.Duration // when that was
	woke   time.Time     // as in Watch
}

// NewWatch returns a Watch of these clocks. They are [WithSleep] and [Split]
// except in tests. Each counts from any fixed point.
func NewWatch(all func() time.Duration, split func(now time.Time) (wall, awake time.Duration)) *Watch {
	w := &Watch{all: all, split: split}
	found := w.read(time.Now())
	w.before = w.most()
	w.last.Store(&found)
	return w
}

// Fresh reports whether the last check is good at now. It is if the kernel's
// clock was read at most [Pause] ago, and the wall clock has moved by at most
// step since. Otherwise the caller must call [Watch.Ask]. Fresh takes no lock
// and makes no system call.
func (w *Watch) Fresh(now time.Time) bool {
	last := w.last.Load()
	if last == nil {
		return false
	}
	found := w.read(now)
	return (found.offset-last.offset).Abs() <= step && found.awake-last.awake <= Pause
}

// Ask checks whether the machine was suspended. If so it calls lost, which
// marks all leases as lost. Other callers wait for that.
//
// No caller may pass Fresh before all leases are marked, or a lost hold would
// be returned. So the check that lets callers pass is stored last. While leases
// are marked, no check is stored. The old one would look good if the wall clock
// was set back by the length of the suspend.
func (w *Watch) Ask(lost func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.read(time.Now()) // first, or a suspend after the kernel's clock is read would not move it
	if w.suspended() {
		w.last.Store(nil)
		lost()
		w.woke = time.Now()
	}
	found.woke = w.woke
	w.last.Store(&found)
}

// Since reports whether a suspend was noticed after then. The caller must have
// called Ask, or seen that the last check is Fresh.
func (w *Watch) Since(then time.Time) bool {
	last := w.last.Load()
	return last == nil || then.Before(last.woke)
}

func (w *Watch) read(now time.Time) check {
	wall, awake := w.split(now)
	return check{offset: wall - awake, awake: awake}
}

// suspended reports whether the machine was suspended for more than most
// since it last reported so; mu must be held.
func (w *Watch) suspended() bool {
	if w.least()-w.before <= most {
		w.before = min(w.before, w.most()) // it is too high if the process was stopped between the readings
		return false
	}
	w.before = w.most()
	return true
}

// least returns how long the machine was suspended in total; most returns the
// same. The clocks are read one after the other, and the process may be stopped
// in between. The order makes least too low then, and most too high. So that
// stop is not taken for a suspend.
func (w *Watch) least() time.Duration {
	all := w.all()
	return all - w.awake()
}

func (w *Watch) most() time.Duration {
	awake := w.awake()
	return w.all() - awake
}

func (w *Watch) awake() time.Duration {
	_, awake := w.split(time.Now())
	return awake
}
