package queue

import (
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
)

// A ProcessOption configures one call of [Queue.Process].
type ProcessOption func(*processSettings)

type processSettings struct {
	workers int
	timeout time.Duration
	grace   time.Duration
	locker  relock.Locker
	lockKey func(Task) string
}

// Defaults and limits of Process.
const (
	defaultWorkers = 10
	maxWorkers     = 10_000
	defaultGrace   = 30 * time.Second
)

// WithWorkers sets how many functions run together. The default is 10. A worker
// whose function has returned nil may begin the next task while the last one is
// being acknowledged.
func WithWorkers(n int) ProcessOption { return func(s *processSettings) { s.workers = n } }

// WithTimeout cancels the function's context after d. A function that returns
// nil within a second of that is acknowledged even so. One that does not return
// is overdue: its attempt has failed, and it keeps its worker until it returns.
// The same is true of hooks and [WithBackoff]. By default there is no timeout,
// and what does not return is only reported: see [Observer].
func WithTimeout(d time.Duration) ProcessOption { return func(s *processSettings) { s.timeout = d } }

// WithGrace sets how long functions may go on after the context of Process was
// cancelled. Then their contexts are cancelled. The default is 30 seconds.
func WithGrace(d time.Duration) ProcessOption { return func(s *processSettings) { s.grace = d } }

// WithLocker runs the function under a lock that other code uses too, such as
// an HTTP handler of the same account. key returns the name of a task's lock,
// or "" for none. If others hold the lock, the task waits behind it in Redis,
// which is no attempt. Each process waits once for a lock, however many tasks
// need it, and processes one of them in each turn.
//
// The function's context carries the hold, as that of [relock.Do] does: a
// nested call for the same lock adds a level. It is cancelled with the hold,
// too. A task whose lock was lost is never acknowledged by Process. The lock of
// a function that hangs is renewed for as long, unless the Locker has
// [relock.WithMaxHold].
func WithLocker(l relock.Locker, key func(Task) string) ProcessOption {
	return func(s *processSettings) { s.locker, s.lockKey = l, key }
}

func (s *processSettings) check(m *lockspec.Problems) {
	m.Check(s.workers >= 1 && s.workers <= maxWorkers, "WithWorkers: %d is not 1 to %d", s.workers, maxWorkers)
	m.Check(s.timeout >= 0, "WithTimeout: %v is negative", s.timeout)
	m.Check(s.grace >= 0, "WithGrace: %v is negative", s.grace)
	m.Check((s.locker == nil) == (s.lockKey == nil), "WithLocker: needs a Locker and a function for its key")
}
