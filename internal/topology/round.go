package topology

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
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
	return failed(fmt.Sprintf("no master %q", r.of.config.Name), "sentinel", r.failed)
}
