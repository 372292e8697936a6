package testkit

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// stopwatchTick is how long the timer sleeps whose lateness is measured.
	stopwatchTick = time.Millisecond
	// latenessShare is how often a promise of time may meet the lateness: in
	// the test, in the server, and in whom the answer wakes up.
	latenessShare = 3
	// sampled is how many goroutines wait in line at each ring.
	sampled = 4
	// mostLateness is where a machine is too slow to judge a promise of time.
	mostLateness = 2 * time.Second
)

// Stopwatch measures how long something takes, and how late a timer of this
// process rings meanwhile. A bound on wall time is a promise and three times
// that lateness, so it holds on a machine that is busy with other things.
type Stopwatch struct {
	t     testing.TB
	began time.Time

	mu    sync.Mutex
	timer *time.Timer   // rings again and again; nil once it is stopped
	rang  time.Duration // when it did, from the start
	most  time.Duration // the greatest lateness so far
}

// NewStopwatch starts a stopwatch. It measures lateness until Net, or until the
// test ends. It is not for a bubble, where nothing is late.
func NewStopwatch(t testing.TB) *Stopwatch {
	s := &Stopwatch{t: t, began: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(stopwatchTick, s.ring)
	t.Cleanup(s.stop)
	return s
}

// ring waits in line behind the goroutines that can run, and then as those wait
// that a goroutine wakes: a timer goes before all of them.
func (s *Stopwatch) ring() {
	runtime.Gosched()
	var woken sync.WaitGroup
	for range sampled {
		woken.Go(s.note)
	}
	woken.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		return
	}
	s.rang = time.Since(s.began)
	s.timer.Reset(stopwatchTick)
}

func (s *Stopwatch) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.most = s.late()
	}
}

func (s *Stopwatch) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// lateness returns how late the timer rang at most.
func (s *Stopwatch) lateness() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late()
}

// late includes the ring that is due now: what a test measures may run before
// the timer does.
func (s *Stopwatch) late() time.Duration {
	return max(s.most, time.Since(s.began)-s.rang-stopwatchTick)
}

// Within fails the test if the promise has passed since the start, and what the
// machine may add.
func (s *Stopwatch) Within(promise time.Duration, what ...any) {
	s.t.Helper()
	s.Check(time.Since(s.began), promise, what...)
}

// Check fails the test if something took longer than its promise and what the
// machine may add. It must have happened while this stopwatch ran.
func (s *Stopwatch) Check(took, promise time.Duration, what ...any) {
	s.t.Helper()
	require.NoError(s.t, s.Judge(took, promise), what...)
}

// Judge returns what Check fails with.
func (s *Stopwatch) Judge(took, promise time.Duration) error {
	late := s.lateness()
	if latenessShare*late > mostLateness {
		s.t.Logf("a timer was %v late: the machine is too slow to judge %v, which took %v", late, promise, took)
		return nil
	}
	if took >= promise+latenessShare*late {
		return fmt.Errorf("it took %v, not less than %v, and timers were up to %v late", took, promise, late)
	}
	return nil
}

// Net stops the stopwatch and returns the time since its start, less what the
// machine may have added: one of many times of which a test takes the median.
// It is called once, and no other method after it.
func (s *Stopwatch) Net() time.Duration {
	took, late := time.Since(s.began), s.lateness()
	s.stop()
	return max(0, took-min(latenessShare*late, mostLateness))
}
