package search

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Failure is why a server or a sentinel did not help.
type Failure struct {
	Address string
	Err     error
}

// A lookError is the error of a look that found nothing, with the reason of
// each that was asked.
type LookError struct {
	reason
	// outvoted reports that some said no, but no majority. Then that no
	// does not end a wait: the server may be old, and the others may
	// return.
	outvoted bool
}

// Failed returns the error of a look. who is what the servers are, and
// configured those in the settings. A no is what no later look would change,
// such as an unknown name or a wrong password. It counts if a majority of those
// in the settings says it.
func Failed(what, who string, failures []Failure, configured []string) *LookError {
	var texts []string
	var no, silence error
	votes := 0
	for _, f := range failures {
		texts = append(texts, fmt.Sprintf("%s %s: %v", who, f.Address, f.Err))
		kind := kindOf(f.Err)
		switch {
		case !driver.IsTransient(kind):
			no = first(no, kind)
			if slices.Contains(configured, f.Address) {
				votes++
			}
		case silence == nil || driver.IsNetwork(silence): // an answer says more
			silence = kind
		}
	}
	e := &LookError{reason: reason{what + ": " + strings.Join(texts, "; "), silence}}
	if silence == nil || 2*votes > len(configured) {
		e.kind = no
	} else {
		e.outvoted = no != nil
	}
	return e
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// reason is an error with a text, which matches another one.
type reason struct {
	text string
	kind error
}

func NewReason(text string, kind error) *reason { return &reason{text, kind} }

func (e *reason) Error() string { return e.text }

func (e *reason) Unwrap() error { return e.kind }

// kindOf returns what an error of a look matches for the caller of a lock. It
// is not the line that the server answered: that was not for the lock.
func kindOf(err error) error {
	switch {
	case errors.Is(err, errs.ErrDenied):
		return errs.ErrDenied
	case !driver.IsAnswer(err):
		return err
	case driver.IsTransient(err):
		return driver.ErrTimeout
	}
	return errs.ErrInvalid // for example, it is no sentinel
}
