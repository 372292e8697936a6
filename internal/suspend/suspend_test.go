package suspend

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine has clocks that a test sets.
type machine struct {
	all, wall, awake time.Duration
	asked            int // for the time with sleep
}

func (m *machine) watch() *Watch { return NewWatch(m.withSleep, m.split) }

func (m *machine) withSleep() time.Duration {
	m.asked++
	return m.all
}

func (m *machine) split(time.Time) (wall, awake time.Duration) { return m.wall, m.awake }

// run has time pass without a suspend.
func (m *machine) run(d time.Duration) {
	m.all, m.wall, m.awake = m.all+d, m.wall+d, m.awake+d
}

func (m *machine) sleep(d time.Duration) { m.all, m.wall = m.all+d, m.wall+d }

// asks reports whether the kernel says that the machine has slept.
func asks(w *Watch) (slept bool) {
	w.Ask(func() { slept = true })
	return slept
}

// The machine's own clocks can be read, and show no sleep where there was none.
func TestSleptOfThisMachine(t *testing.T) {
	w := NewWatch(WithSleep, Split)
	require.LessOrEqual(t, w.least(), w.before)
	time.Sleep(10 * time.Millisecond)
	require.InDelta(t, w.before, w.least(), float64(most))
	require.False(t, asks(w))
	require.False(t, w.Since(time.Now()))
	fresh := func() bool { return w.Fresh(time.Now()) }
	require.Eventually(t, func() bool { return fresh() || asks(w) || fresh() }, 10*time.Second, time.Millisecond)
	require.Zero(t, testing.AllocsPerRun(100, func() { fresh() }))
}

// The kernel is asked if the wall clock has moved, and after a pause, and not
// otherwise. Only the kernel's answer is a suspend.
func TestFreshReadsOnlyTheWallClock(t *testing.T) {
	for _, tt := range []struct {
		name      string
		wall, run time.Duration
		fresh     bool
	}{
		{"immediately", 0, 0, true},
		{"clock is inexact", step, 0, true},
		{"clock was slow", -step, Pause, true},
		{"clock set forward", step + 1, 0, false},
		{"clock set back", -step - 1, 0, false},
		{"set by years", 1 << 62, 0, false},
		{"after a pause", 0, Pause + 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &machine{}
			w := m.watch()
			m.run(tt.run)
			m.wall += tt.wall
			m.asked = 0
			w.mu.Lock() // is not wanted
			require.Equal(t, tt.fresh, w.Fresh(time.Now()))
			w.mu.Unlock()
			require.Zero(t, m.asked)

			require.False(t, asks(w))
			require.True(t, w.Fresh(time.Now()))
		})
	}
}

// A suspension that exceeds the inaccuracy of the clocks is noticed once, and
// ends everything from before.
func TestSleepIsNoticedOnce(t *testing.T) {
	m := &machine{}
	w := m.watch()
	before := time.Now()
	m.sleep(most)
	require.False(t, w.Fresh(time.Now()))
	require.False(t, asks(w))
	require.False(t, w.Since(before))
	m.sleep(1)
	require.True(t, asks(w))
	require.False(t, asks(w))
	require.True(t, w.Fresh(time.Now()))
	require.True(t, w.Since(before))
	require.False(t, w.Since(time.Now()))
}

// While leases are marked lost no caller passes, whatever the wall clock shows,
// and nothing that was sent before is valid.
func TestNoCallerPassesWhileLeasesAreMarked(t *testing.T) {
	for name, back := range map[string]time.Duration{"clock goes on": 0, "clock set back": time.Hour} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			w := m.watch()
			sent := time.Now()
			m.sleep(time.Hour)
			m.wall -= back
			require.Equal(t, back > 0, w.Fresh(time.Now()), "until the kernel is asked")
			marked := false
			w.Ask(func() {
				require.False(t, w.Fresh(time.Now()))
				require.True(t, w.Since(sent))
				marked = true
			})
			require.True(t, marked)
			require.True(t, w.Fresh(time.Now()))
			require.True(t, w.Since(sent))
		})
	}
}

// A caller waits until the leases are marked.
func TestOthersWaitForTheMarking(t *testing.T) {
	m := &machine{}
	w := m.watch()
	m.sleep(time.Hour)
	var all sync.WaitGroup
	marked := false // the mutex of the Watch guards it
	for range 8 {
		all.Go(func() {
			if !w.Fresh(time.Now()) {
				w.Ask(func() {
					time.Sleep(10 * time.Millisecond)
					marked = true
				})
			}
			if !marked {
				t.Error("passed while leases were marked")
			}
		})
	}
	all.Wait()
}

// A suspend right after the kernel's answer is not hidden by the check that is
// stored after it.
func TestSuspendBeforeTheCheckIsStored(t *testing.T) {
	m := &machine{}
	w := NewWatch(func() time.Duration {
		defer func() {
			if m.asked++; m.asked == 3 { // after the last reading of Ask
				m.sleep(time.Hour)
			}
		}()
		return m.all
	}, m.split)
	require.False(t, asks(w))
	require.Equal(t, 3, m.asked)
	require.False(t, w.Fresh(time.Now()))
	require.True(t, asks(w))
}

// slowMachine has clocks whose readings take a while, as in a process that is
// stopped between them.
type slowMachine struct{ now, pause, slept time.Duration }

func (m *slowMachine) awake() time.Duration {
	m.now += m.pause
	return m.now
}

func (m *slowMachine) watch() *Watch {
	return NewWatch(
		func() time.Duration { return m.awake() + m.slept },
		func(time.Time) (wall, awake time.Duration) { return 0, m.awake() },
	)
}

// A process that is stopped between the readings of the two clocks was not
// suspended.
func TestStopBetweenTheClocksIsNoSleep(t *testing.T) {
	m := &slowMachine{pause: time.Minute}
	w := m.watch()
	for _, m.pause = range []time.Duration{0, time.Hour, time.Millisecond} {
		require.False(t, asks(w))
	}
	m.slept, m.pause = time.Hour, time.Minute
	require.True(t, asks(w))
	m.pause = 0
	require.False(t, asks(w), "has not slept again")
}

// A process that was stopped as it began to watch notices a sleep all the same.
func TestStopAtTheBeginningHidesNoSleep(t *testing.T) {
	m := &slowMachine{pause: time.Hour}
	w := m.watch()
	m.pause = 0
	require.False(t, asks(w))
	m.slept = most + 1
	require.True(t, asks(w))
}
