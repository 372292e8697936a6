package lockspec

import (
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// Problems collects the validation errors of settings, to report them in one
// error.
type Problems []string

// Check adds a problem unless ok.
func (m *Problems) Check(ok bool, format string, args ...any) {
	if !ok {
		*m = append(*m, fmt.Sprintf(format, args...))
	}
}

// Err returns nil, or an error that matches ErrInvalid and lists all problems.
func (m Problems) Err() error {
	if len(m) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errs.ErrInvalid, strings.Join(m, "; "))
}

// CheckMillis adds the problems of a duration that Redis counts in whole
// milliseconds.
func (m *Problems) CheckMillis(name string, d time.Duration) {
	m.Check(d >= MinLease, "%s: %v is below %v", name, d, MinLease)
	m.Check(d <= MaxLease, "%s: %v is above %v", name, d, MaxLease)
	m.Check(d%time.Millisecond == 0, "%s: %v has a fraction of a millisecond", name, d)
}

// MaxKey limits the names of locks.
const MaxKey = 1024

// CheckKey adds why name cannot be the name of a lock. Redis computes the slot
// from the text in braces. An empty name, or one that starts with a closing
// brace, would put the lock and its queue into different slots.
func CheckKey(m *Problems, name string) {
	m.Check(name != "", "key: is empty")
	m.Check(len(name) <= MaxKey, "key: %d bytes are above %d", len(name), MaxKey)
	m.Check(name == "" || name[0] != '}', "key: %.40q starts with a closing brace", name)
}
