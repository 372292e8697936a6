package queue

import (
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// Defaults and limits.
const (
	defaultAttempts = 25
	defaultLetters  = 10_000
	defaultAge      = 30 * 24 * time.Hour
	maxAttempts     = 1_000_000
	maxLetters      = 10_000_000
)

// An Option configures a [Queue].
type Option func(*settings)

type settings struct {
	lease    time.Duration
	attempts int
	backoff  func(attempt int, err error) time.Duration
	unique   time.Duration
	letters  int
	age      time.Duration
	observer Observer
}

func defaults() settings {
	return settings{lease: lockspec.DefaultLease, attempts: defaultAttempts, backoff: Backoff, letters: defaultLetters, age: defaultAge}
}

// WithLease sets the lease of a delivery, which is renewed every third of it.
// So the task of a dead worker is due again after at most this time. The
// default is 30 seconds.
func WithLease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// WithMaxAttempts sets how many attempts a task has before it becomes a dead
// letter. The setting of the queue that receives counts. The default is 25.
func WithMaxAttempts(n int) Option { return func(s *settings) { s.attempts = n } }

// WithBackoff sets the pause after a failed attempt, 1 for the first. It is
// called by [Queue.Process] only. The default is [Backoff].
func WithBackoff(f func(attempt int, err error) time.Duration) Option {
	return func(s *settings) { s.backoff = f }
}

// WithUnique also refuses the ID of a task that was done within the window. It
// must be given both to the queue that enqueues and to the one that receives.
// The default is no window.
func WithUnique(window time.Duration) Option { return func(s *settings) { s.unique = window } }

// WithDeadLetterLimit sets how many dead letters are kept, and for how long.
// The oldest are deleted. The defaults are 10,000 and 30 days.
func WithDeadLetterLimit(n int, age time.Duration) Option {
	return func(s *settings) { s.letters, s.age = n, age }
}

// WithObserver sets hooks for metrics, traces and audits.
func WithObserver(o Observer) Option { return func(s *settings) { s.observer = o } }

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
	m.Check(s.backoff != nil, "WithBackoff: is nil")
	m.Check(s.unique >= 0 && s.unique <= lockspec.MaxLease, "WithUnique: %v is not 0 to %v", s.unique, lockspec.MaxLease)
	m.Check(s.letters >= 0 && s.letters <= maxLetters, "WithDeadLetterLimit: %d is not 0 to %d", s.letters, maxLetters)
	m.Check(s.age > 0 && s.age <= lockspec.MaxLease, "WithDeadLetterLimit: %v is not above 0 and up to %v", s.age, lockspec.MaxLease)
}
