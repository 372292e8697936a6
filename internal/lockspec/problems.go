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

// CheckMillis adds the problem of a duration that Redis counts in whole
// milliseconds.
func (m *Problems) CheckMillis(name string, d time.Duration) {
	switch {
	case d < MinLease:
		m.Check(false, "%s: %v is below %v", name, d, MinLease)
	case d > MaxLease:
		m.Check(false, "%s: %v is above %v", name, d, MaxLease)
	default:
		m.Check(d%time.Millisecond == 0, "%s: %v has a fraction of a millisecond", name, d)
	}
}

// CheckClient adds why a client cannot be used, unless it was made by its
// constructor. what names it.
func (m *Problems) CheckClient(what string, isNil, made bool) {
	switch {
	case isNil:
		m.Check(false, "%s: is nil", what)
	case !made:
		m.Check(false, "%s: was not made by NewClient", what)
	}
}

// MaxKey limits the names of locks.
const MaxKey = 1024

// CheckKey adds why name cannot be the name of a lock.
func CheckKey(m *Problems, name string) { CheckName(m, "key", name) }

// CheckName adds why name cannot be in the braces of keys. what says what it
// names. Redis computes the slot from the text in braces. An empty name, or one
// that starts with a closing brace, would put a lock and its queue into
// different slots.
func CheckName(m *Problems, what, name string) {
	switch {
	case name == "":
		m.Check(false, "%s: is empty", what)
	case len(name) > MaxKey:
		m.Check(false, "%s: %d bytes are above %d", what, len(name), MaxKey)
	case name[0] == '}':
		m.Check(false, "%s: %.40q starts with a closing brace", what, name)
	}
}
