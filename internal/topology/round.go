package topology

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
)

// round is what a look does, and finds. Only the goroutine that looks uses it.
type round struct {
	of      *Sentinel
	order   []string
	limit   time.Duration
	trusted string           // the master, if it need not be checked
	roles   map[string]error // of the servers that were checked

	master   string   // that passed the check, or ""
	answered string   // the sentinel that named it, or else the first that answered
	others   []string // sentinels that this one knows; nil if it does not say
	late     bool     // one of them was late
	failed   []failure
}

// failure is why a sentinel did not help.
type failure struct {
	sentinel string
	err      error
}

// ask asks one sentinel after another, until one names a master that passes the
// check.
func (r *round) ask(ctx context.Context) {
	for _, at := range r.order {
		address, others, err := r.of.askOne(ctx, at, r.limit)
		if ctx.Err() != nil {
			return
		}
		if answered := err == nil; answered {
			err = r.check(ctx, address)
			if r.answered == "" || err == nil {
				r.answered, r.others = at, others
			}
		}
		if err == nil {
			r.master = address
			return
		}
		r.late = r.late || errors.Is(err, os.ErrDeadlineExceeded)
		r.failed = append(r.failed, failure{at, err})
	}
}

// check returns an error if the server does not say that it is a master. Each
// server is asked once.
func (r *round) check(ctx context.Context, address string) error {
	if address == r.trusted {
		return nil
	}
	err, known := r.roles[address]
	if !known {
		err = r.of.checkRole(ctx, address, r.limit)
		r.roles[address] = err
	}
	return err
}

// err returns the failure of a round that found no master.
func (r *round) err() error {
	if r.master != "" {
		return nil
	}
	var texts []string
	var kind error
	for _, f := range r.failed {
		texts = append(texts, fmt.Sprintf("sentinel %s: %v", f.sentinel, f.err))
		if kind == nil || driver.IsNetwork(kind) { // the first answer counts more than silence
			kind = kindOf(f.err)
		}
	}
	return &reason{fmt.Sprintf("no master %q: %s", r.of.config.Name, strings.Join(texts, "; ")), kind}
}

// reason is an error with a text, which matches another one.
type reason struct {
	text string
	kind error
}

func (e *reason) Error() string { return e.text }

func (e *reason) Unwrap() error { return e.kind }

// kindOf returns what an error of a sentinel matches for the caller of a lock.
// It is not the line that the sentinel answered: this is not the lock's server.
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
