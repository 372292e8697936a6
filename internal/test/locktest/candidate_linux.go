package locktest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

// termTick is how often a leader reports that its term was extended.
const termTick = 10 * time.Millisecond

// campaigner is what the process of a [Candidate] has.
type campaigner struct {
	self    *faults.Self
	leader  *relock.Leader
	key     string
	running atomic.Int32 // functions of terms
}

// Campaign is the role of a helper process in an [Election]: it campaigns with
// a Leader until the test ends it. It reports each term: "lead" and "valid"
// with the time until which the term is valid, and "end". It reports "together"
// if its function runs twice at the same time.
func Campaign(self *faults.Self, l relock.Locker, key string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for range self.Commands { // there are none
		}
		cancel()
	}()
	c := campaigner{self: self, leader: relock.NewLeader(l, key), key: key}
	self.Emit("campaigns")
	return c.leader.Run(ctx, c.term)
}

// term runs until the leadership ends.
func (c *campaigner) term(ctx context.Context) error {
	if c.running.Add(1) > 1 {
		c.self.Emit("together")
	}
	defer c.running.Add(-1)
	hold, _ := relock.HoldFromContext(ctx, c.key)
	until := hold.ValidUntil()
	c.self.Emit("lead", faults.Stamp(until))
	for tick := time.Tick(termTick); ; {
		select {
		case <-ctx.Done():
			c.self.Emit("end")
			return context.Cause(ctx)
		case <-tick:
		}
		if now := hold.ValidUntil(); now.After(until) && c.leader.IsLeader(ctx) == nil {
			until = now
			c.self.Emit("valid", faults.Stamp(until))
		}
	}
}
