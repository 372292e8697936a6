package topology

import (
	"errors"
	"fmt"
	"strings"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
)

// failure is why a server or a sentinel did not help.
type failure struct {
	address string
	err     error
}

// failed returns the error of a look that found nothing, with the reason of
// each that was asked. who is what they are.
func failed(what, who string, failures []failure) error {
	var texts []string
	var kind error
	for _, f := range failures {
		texts = append(texts, fmt.Sprintf("%s %s: %v", who, f.address, f.err))
		if kind == nil || driver.IsNetwork(kind) { // the first answer counts more than silence
			kind = kindOf(f.err)
		}
	}
	return &reason{what + ": " + strings.Join(texts, "; "), kind}
}

// reason is an error with a text, which matches another one.
type reason struct {
	text string
	kind error
}

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
