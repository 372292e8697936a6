package locktest

import (
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
)

// observe checks the cell again and again until its end. No client's hold is
// valid for longer than the server has it, no two holds are valid together, and
// the key has an expiry.
func (c *FaultBench) observe() {
	conn, over := c.Server.Dial(c), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.lookOver(conn)
			case <-over:
				return
			}
		}
	})
	c.Cleanup(func() {
		close(over)
		group.Wait()
		_ = conn.Close()
	})
}

// Look checks now what is true all the time, see NewFaultBench.
func (c *FaultBench) Look() { c.lookOver(c.conn) }

func (c *FaultBench) lookOver(conn redis.Conn) {
	mine, others := ValidLeases(c.Client), ValidLeases(c.Other)
	ms, err := redis.Int64(conn.Do("PTTL", c.Key))
	latest := time.Now().Add(time.Duration(ms)*time.Millisecond + ClockGrain)
	switch {
	case err != nil:
		c.Errorf("observer: %v", err)
	case ms == -1:
		c.Errorf("the key has no expiry")
	case len(mine) > 0 && len(others) > 0 && mine[0].live():
		c.Errorf("two clients hold the lock")
	}
	for _, b := range append(mine, others...) {
		if (ms < 0 || b.until.After(latest)) && b.live() {
			c.Errorf("valid until %v, but at the server until %v (%d ms)", b.until, latest, ms)
		}
	}
}

// ValidLeases returns until when the client's holds of the cell's lock are
// valid. Their mutexes come before the client's.
func ValidLeases(c *relock.Client) (all []Validity) {
	for h := range Engine(c).Holding() {
		if until := h.ValidUntil(); h.Key() == FaultKey && !until.IsZero() {
			all = append(all, Validity{h, until})
		}
	}
	return all
}

// Validity is until when a hold was valid at some moment.
type Validity struct {
	hold  *lease.Hold
	until time.Time
}

// live reports whether the hold is still valid.
func (b Validity) live() bool { return !b.hold.ValidUntil().IsZero() }
