// Package suspend notices that the machine was suspended.
//
// The monotonic clock, by which leases are timed, stands still during a
// suspend. On Linux another clock of the kernel goes on, and the difference is
// how long the machine has slept. Reading that clock is a system call. It is
// read every [Pause], and earlier if the wall clock, which also goes on, has
// moved against the monotonic clock. The wall clock decides nothing.
package suspend

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Most is how much the machine may have slept without a loss: clocks are not exact.
	Most = 250 * time.Millisecond
	// Pause is how long a hold may go unwatched that nobody asks, and how long
	// the kernel may go unasked.
	Pause = 250 * time.Millisecond
	// Step is how far the wall clock may move before the kernel is asked.
	Step = 10 * time.Millisecond
)

// origin is what Awake counts from.
var origin = time.Now()

// Awake is the time by the monotonic clock, which stands still while the machine is suspended.
func Awake() time.Duration { return time.Since(origin) }

// Split returns the two readings in now, which is from time.Now: that of the
// wall clock, and Awake.
func Split(now time.Time) (wall, awake time.Duration) {
	return time.Duration(now.UnixNano()), now.Sub(origin)
}

// Watch compares clocks. It is safe for concurrent use.
type Watch struct {
	all   func() time.Duration                        // with the time that the machine slept
	split func(time.Time) (wall, awake time.Duration) // the wall clock, and without that time
	last  atomic.Pointer[check]                       // nil while leases are marked lost

	mu     sync.Mutex    // guards what follows; held while leases are marked lost
	before time.Duration // how long the machine has slept in all, at most
	woke   time.Time     // when a suspend was noticed last; zero if none was
}

// check is what was found when the kernel was asked. It never changes.
type check struct {
	offset time.Duration // of the wall clock to the monotonic one, just before
	awake  time.Duration // when that was
	woke   time.Time     // as in Watch
}

// NewWatch begins to watch clocks, which are [WithSleep] and [Split] except in
// tests. Each counts from any fixed point.
func NewWatch(all func() time.Duration, split func(now time.Time) (wall, awake time.Duration)) *Watch {
	w := &Watch{all: all, split: split}
	found := w.read(time.Now())
	w.before = w.most()
	w.last.Store(&found)
	return w
}

// Fresh reports whether the last check is good at now: the kernel was asked at
// most [Pause] ago, and the wall clock has moved by at most [Step] since. If
// not, the caller has to [Watch.Ask]. It takes no lock and makes no system
// call.
func (w *Watch) Fresh(now time.Time) bool {
	last := w.last.Load()
	if last == nil {
		return false
	}
	found := w.read(now)
	return (found.offset-last.offset).Abs() <= Step && found.awake-last.awake <= Pause
}

// Ask asks the kernel whether the machine was suspended, and if so calls lost,
// which marks all leases as lost. Other callers wait meanwhile.
//
// Nobody may pass by Fresh before all leases are marked, or a lost hold would
// be given out. So the check that lets them pass is stored last. While leases
// are marked there is none, because the old one looks good if the wall clock
// was set back by as much as the machine slept.
func (w *Watch) Ask(lost func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.read(time.Now()) // first, or a suspend after the kernel's answer would not move it
	if w.slept() {
		w.last.Store(nil)
		lost()
		w.woke = time.Now()
	}
	found.woke = w.woke
	w.last.Store(&found)
}

// Since reports whether a suspend was noticed after then. Its caller has seen
// that the last check is Fresh, or has asked.
func (w *Watch) Since(then time.Time) bool {
	last := w.last.Load()
	return last == nil || then.Before(last.woke)
}

func (w *Watch) read(now time.Time) check {
	wall, awake := w.split(now)
	return check{offset: wall - awake, awake: awake}
}

// slept reports whether the machine has slept for more than [Most] since it
// last reported so; mu is held.
func (w *Watch) slept() bool {
	if w.least()-w.before <= Most {
		w.before = min(w.before, w.most()) // it may be too high, when the process was stopped between the readings
		return false
	}
	w.before = w.most()
	return true
}

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

func (w *Watch) awake() time.Duration {
	_, awake := w.split(time.Now())
	return awake
}
