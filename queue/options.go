package queue

import (
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// Defaults and limits.
const (
	defaultAttempts = 25
	defaultFatal    = 5
	defaultLetters  = 10_000
	defaultAge      = 30 * 24 * time.Hour
	maxAttempts     = 1_000_000
	maxLetters      = 10_000_000
	maxInFlight     = 1_000_000
)

// An Option configures a [Queue].
type Option func(*settings)

type settings struct {
	lease    time.Duration
	attempts int
	fatal    int // interruptions of a dead letter
	backoff  func(attempt int, err error) time.Duration
	unique   time.Duration
	letters  int
	age      time.Duration
	inFlight int // 0 for no limit
	observer Observer
	label    string
}

func defaults() settings {
	return settings{
		lease: lockspec.DefaultLease, attempts: defaultAttempts, fatal: defaultFatal, backoff: Backoff,
		letters: defaultLetters, age: defaultAge,
	}
}

// WithLease sets the lease of a delivery, which is renewed every third of it.
// So the task of a dead worker is due again after at most this time. The
// default is 30 seconds.
func WithLease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// WithMaxAttempts sets how many attempts a task has before it becomes a dead
// letter, if it has no MaxAttempts. The setting of the queue that receives
// counts. The default is 25. An attempt that was interrupted does not count:
// see [WithMaxInterruptions].
func WithMaxAttempts(n int) Option { return func(s *settings) { s.attempts = n } }

// WithMaxInterruptions sets with which interruption a task becomes a dead
// letter. An attempt is interrupted if its lease ends because its process is
// gone: killed, perhaps by the task itself, or cut off. Interruptions count
// over the life of the task, but not while no worker that waits could reach the
// server, nor right after its start. A task that was interrupted is processed
// beside others, but only one such task at a time in a client, until that is
// settled or has run for a lease. The default is 5.
func WithMaxInterruptions(n int) Option { return func(s *settings) { s.fatal = n } }

// WithBackoff sets the pause after a failed attempt, 1 for the first. It is
// called by [Queue.Process] only, and not for a function that is still running,
// see [WithTimeout]. The default is [Backoff].
func WithBackoff(f func(attempt int, err error) time.Duration) Option {
	return func(s *settings) { s.backoff = f }
}

// WithUnique also refuses the ID of a task that was done within the window. It
// must be given both to the queue that enqueues and to the one that receives.
// The default is no window.
func WithUnique(window time.Duration) Option { return func(s *settings) { s.unique = window } }

// WithDeadLetterLimit sets how many dead letters are kept, and for how long.
// The oldest are deleted by workers of a queue with this setting, in the course
// of time. Until then their IDs are in use. A queue reads only those within its
// setting. The defaults are 10,000 and 30 days.
func WithDeadLetterLimit(n int, age time.Duration) Option {
	return func(s *settings) { s.letters, s.age = n, age }
}

// WithMaxInFlight limits how many tasks of the queue are in flight together,
// over all workers: 1 to 1,000,000, or 0 for no limit, which is the default.
// Give it to each queue that receives: its setting counts for what it receives.
// The tasks of a crashed worker count until their leases end.
func WithMaxInFlight(n int) Option { return func(s *settings) { s.inFlight = n } }

// WithLabel stores s with what is in flight, for people who look for it with
// Queue.Get. s has at most 256 bytes when it is escaped as in a URL. Host and
// process ID are stored anyway.
func WithLabel(s string) Option { return func(o *settings) { o.label = lockspec.Escape(s) } }

// WithObserver adds hooks for metrics, traces and audits. If it is given more
// than once, all hooks are called, in order.
func WithObserver(o Observer) Option { return func(s *settings) { s.observer = s.observer.And(o) } }

// Backoff is the default pause after a failed attempt: a second, doubled for
// each further attempt, at most an hour, and up to a fifth less at random.
func Backoff(attempt int, _ error) time.Duration {
	pause := time.Hour
	if attempt < 13 {
		pause = min(pause, time.Second<<max(0, attempt-1))
	}
	return pause - rand.N(pause/5)
}

func (s *settings) check(m *lockspec.Problems) {
	m.CheckMillis("WithLease", s.lease)
	m.Check(s.attempts >= 1 && s.attempts <= maxAttempts, "WithMaxAttempts: %d is not 1 to %d", s.attempts, maxAttempts)
	m.Check(s.fatal >= 1 && s.fatal <= maxAttempts, "WithMaxInterruptions: %d is not 1 to %d", s.fatal, maxAttempts)
	m.Check(s.backoff != nil, "WithBackoff: is nil")
	m.Check(s.unique >= 0 && s.unique <= lockspec.MaxLease, "WithUnique: %v is not 0 to %v", s.unique, lockspec.MaxLease)
	m.Check(s.letters >= 0 && s.letters <= maxLetters, "WithDeadLetterLimit: %d is not 0 to %d", s.letters, maxLetters)
	m.Check(s.inFlight >= 0 && s.inFlight <= maxInFlight, "WithMaxInFlight: %d is not 0 to %d", s.inFlight, maxInFlight)
	m.Check(len(s.label) <= lockspec.MaxLabel, "WithLabel: %d bytes when escaped are above %d", len(s.label),
		lockspec.MaxLabel)
	m.Check(s.age > 0 && s.age <= lockspec.MaxLease, "WithDeadLetterLimit: %v is not above 0 and up to %v",
		s.age, lockspec.MaxLease)
}
