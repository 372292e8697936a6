package sentinel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/relock-go/relock/internal/redis/search"
)

// round is what a look does, and finds. Only the goroutine that looks uses it.
type round struct {
	of      *Sentinel
	order   []string
	limit   time.Duration
	trusted string           // the master, if it need not be checked
	roles   map[string]error // of the servers that were checked
	epoch   int64            // the greatest of a configuration that is known

	master   string   // that passed the check, or ""
	answered string   // the sentinel that named it, or else the first that answered
	others   []string // sentinels that this one knows; nil if it does not say
	late     bool     // one of them was late
	behind   int      // how many answered by an epoch before that
	failed   []search.Failure
}

// ask asks one sentinel after another, until one names a master that passes the
// check.
func (r *round) ask(ctx context.Context) {
	for _, at := range r.order {
		w, err := r.of.askOne(ctx, at, r.limit)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = r.take(ctx, at, w)
		}
		if err == nil {
			return
		}
		r.late = r.late || errors.Is(err, os.ErrDeadlineExceeded)
		r.failed = append(r.failed, search.Failure{Address: at, Err: err})
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
func (r *round) err() *search.LookError {
	if r.master != "" {
		return nil
	}
	return search.Failed(fmt.Sprintf("no master %q", r.of.config.Name), "sentinel", r.failed, r.of.config.Addresses)
}
