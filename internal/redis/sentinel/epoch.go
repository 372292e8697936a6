package sentinel

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/search"
)

// word is what a sentinel says about the master.
type word struct {
	address string
	epoch   int64    // of its configuration; 0 if it may not say
	others  []string // sentinels; nil if it may not name them
}

var errMoving = search.NewReason("the master changed while the sentinel was asked", driver.ErrTimeout)

// masterOf asks a sentinel for the master and the epoch of its configuration.
// Each failover has a greater epoch. Two commands return them. So the epoch is
// asked for before and after, and both answers must agree.
func (s *Sentinel) masterOf(ctx context.Context, p *conns.Pool) (w word, err error) {
	before, err := s.epochOf(ctx, p)
	if err != nil {
		return word{}, err
	}
	o := p.Call(ctx, driver.Limits{}, search.Command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.config.Name))
	if o.Err != nil {
		return word{}, o.Err
	}
	if w.address, err = s.addressIn(o.Reply); err != nil {
		return word{}, err
	}
	if w.epoch, err = s.epochOf(ctx, p); err == nil && w.epoch != before {
		err = errMoving
	}
	return w, err
}

// epochOf returns the epoch of the configuration that a sentinel has. It is 0
// for a user who may not ask, and for a master that is not known.
func (s *Sentinel) epochOf(ctx context.Context, p *conns.Pool) (int64, error) {
	o := p.Call(ctx, driver.Limits{}, search.Command("SENTINEL", "MASTER", s.config.Name))
	if !o.Answered {
		return 0, o.Err
	}
	fields, err := driver.StringMap(o.Reply, o.Err)
	if err != nil {
		return 0, nil //nolint:nilerr // the next command has the reason, if there is one
	}
	epoch, _ := strconv.ParseInt(fields["config-epoch"], 10, 64)
	return epoch, nil
}

// take takes the word of a sentinel, or returns why it does not count. One by
// an epoch before the known one names a master that was replaced: that server
// may still say that it is a master.
func (r *round) take(ctx context.Context, at string, w word) error {
	if w.epoch < r.epoch {
		r.behind++
		return search.NewReason(fmt.Sprintf("names server %s by configuration epoch %d, "+
			"but %d is known", w.address, w.epoch, r.epoch), driver.ErrTimeout)
	}
	err := r.check(ctx, w.address)
	if r.answered == "" || err == nil {
		r.answered, r.others = at, w.others
	}
	if err == nil {
		r.master, r.epoch = w.address, w.epoch
	}
	return err
}

// nextEpoch returns the epoch that the next look has to find. If all sentinels
// answer, and none has the known one, they were set up anew: the next look
// takes what they say.
func (r *round) nextEpoch() int64 {
	if r.behind == len(r.order) {
		return 0
	}
	return r.epoch
}

// orLogin adds to the refusal of a sentinel what to do about it.
func (s *Sentinel) orLogin(err error) error {
	if errors.Is(err, errs.ErrDenied) {
		return fmt.Errorf("%w; see %s", err, s.config.LoginBy)
	}
	return err
}
