package sentinel

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/redis/search"
)

const (
	firstLimit   = 300 * time.Millisecond // for a sentinel or a server, until it is known to be too short
	pollInterval = 10 * time.Second
	minInterval  = 100 * time.Millisecond // at most, unless a sentinel has said that the master changed; see pause
	maxInterval  = 250 * time.Millisecond // while no master passes the check
	minGap       = time.Second / 20       // between two looks, whatever a sentinel says
)

// lookUntilClosed looks for the master.
func (s *Sentinel) lookUntilClosed() {
	interval := minInterval
	for {
		var found bool
		if found, interval = s.look(), min(2*interval, maxInterval); found {
			interval = minInterval
		}
		if !s.pause(found, interval) {
			return
		}
	}
}

// pause waits until it is time for the next look, and reports whether there is
// one. Clients must not look at the same time.
func (s *Sentinel) pause(found bool, interval time.Duration) bool {
	interval = interval/2 + rand.N(interval/2+1)
	soon, now := s.Soon, s.now
	poll := interval
	if !found {
		soon = nil // it is soon anyway
	} else {
		poll = pollInterval - rand.N(pollInterval/10)
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-now:
			soon, now = nil, nil
			timer.Reset(time.Until(s.looked.Add(minGap)))
		case <-soon:
			soon = nil
			timer.Reset(interval)
		case <-s.Life.Done():
			return false
		}
	}
}

// look asks the sentinels once, and reports whether it found a master.
func (s *Sentinel) look() bool {
	ctx, cancel := context.WithCancel(s.Life)
	defer cancel()
	r := s.begin(cancel)
	s.looked = time.Now()
	r.ask(ctx)
	return s.finish(ctx, r, time.Since(s.looked))
}

// begin returns what a look needs to know.
func (s *Sentinel) begin(interrupt context.CancelFunc) *round {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	r := &round{of: s, order: slices.Clone(s.sentinels), limit: s.limit, epoch: s.epoch, roles: map[string]error{}}
	if !s.invalid {
		r.trusted = s.master
	}
	s.invalid, s.interrupt = false, interrupt
	s.Begin()
	return r
}

// finish takes the results of a look, and reports whether it found a master.
// One that was interrupted has none.
func (s *Sentinel) finish(ctx context.Context, r *round, took time.Duration) (found bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.interrupt, s.cut = nil, ctx.Err() != nil
	if s.cut {
		return false
	}
	s.setLimit(r, took)
	s.learn(r)
	// A greater epoch of the same master: it was replaced for a while.
	returned := r.epoch > s.epoch
	s.epoch = r.nextEpoch()
	found = r.master != ""
	if found && s.master != "" && (r.master != s.master || returned) {
		search.Signal(s.Changes)
	}
	if found && r.master != s.master {
		s.master, s.invalid = r.master, false
	}
	s.Conclude(r.err())
	return found
}

// setLimit doubles the limit if all sentinels were late, because the network
// may be slow. An answer shortens it again.
func (s *Sentinel) setLimit(r *round, took time.Duration) {
	switch {
	case r.master != "" && len(r.failed) == 0:
		s.limit = max(firstLimit, min(s.limit, 4*took))
	case r.answered == "" && r.late:
		s.limit = min(2*s.limit, max(firstLimit, s.config.Servers.DialTimeout))
	}
}

// learn puts the sentinel that answered to the front, and adds those that it
// knows. The goroutine that listens moves to it.
func (s *Sentinel) learn(r *round) {
	if r.answered == "" {
		return
	}
	order := []string{r.answered}
	for _, all := range [][]string{s.sentinels, r.others} {
		for _, at := range all {
			wanted := slices.Contains(s.config.Addresses, at) || r.others == nil || slices.Contains(r.others, at)
			if wanted && !slices.Contains(order, at) {
				order = append(order, at)
			}
		}
	}
	s.sentinels = order
	s.listenTo(r.answered)
}
