package suspend

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The machine's own clocks can be read, and show no sleep where there was none.
func TestSleptOfThisMachine(t *testing.T) {
	w := NewWatch(WithSleep, Awake)
	require.LessOrEqual(t, w.least(), w.before)
	time.Sleep(10 * time.Millisecond)
	require.InDelta(t, w.before, w.least(), float64(Most))
	require.False(t, w.Slept())
	require.False(t, w.Since(time.Time{}))
}

// A sleep is noticed once, when it was longer than the clocks are inexact, and all that was before it is.
func TestSleepIsNoticedOnce(t *testing.T) {
	var slept time.Duration
	w := NewWatch(func() time.Duration { return slept }, func() time.Duration { return 0 })
	before := time.Now()
	slept = Most
	require.False(t, w.Slept())
	require.False(t, w.Since(before))
	slept++
	require.True(t, w.Slept())
	require.False(t, w.Slept())
	require.True(t, w.Since(before))
	require.False(t, w.Since(time.Now()))
}

// A process that is stopped between the readings of the two clocks has not slept.
func TestStopBetweenTheClocksIsNoSleep(t *testing.T) {
	var now, pause, slept time.Duration // by both clocks; how long each reading takes
	clock := func() time.Duration {
		now += pause
		return now
	}
	pause = time.Minute
	w := NewWatch(func() time.Duration { return clock() + slept }, clock)
	for _, pause = range []time.Duration{0, time.Hour, time.Millisecond} {
		require.False(t, w.Slept())
	}
	slept, pause = time.Hour, time.Minute
	require.True(t, w.Slept())
	pause = 0
	require.False(t, w.Slept(), "has not slept again")
}

// A process that was stopped as it began to watch notices a sleep all the same.
func TestStopAtTheBeginningHidesNoSleep(t *testing.T) {
	var now, pause, slept time.Duration // by both clocks; how long each reading takes
	clock := func() time.Duration {
		now += pause
		return now
	}
	pause = time.Hour
	w := NewWatch(func() time.Duration { return clock() + slept }, clock)
	pause = 0
	require.False(t, w.Slept())
	slept = Most + 1
	require.True(t, w.Slept())
}
