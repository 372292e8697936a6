package locktest

import (
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/scripttest"
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

// Look checks now what is true all the time, see NewCell.
func (c *FaultBench) Look() { c.lookOver(c.Bench.Conn) }

func (c *FaultBench) lookOver(conn redis.Conn) {
	mine, others := ValidLeases(c.Client), ValidLeases(c.Other)
	ms, err := redis.Int64(conn.Do("PTTL", c.Bench.Key))
	latest := time.Now().Add(time.Duration(ms)*time.Millisecond + scripttest.ClockGrain)
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

// Validity is until when a lease was valid at some moment.
type Validity struct {
	lease *lease.Lease
	until time.Time
}

// ValidLeases returns the leases of the cell's lock that are valid. Their
// mutexes come before the client's.
func ValidLeases(c *relock.Client) (all []Validity) {
	for _, l := range Engine(c).Leases() {
		if until := validUntil(l); l.State().Key == FaultKey && !until.IsZero() {
			all = append(all, Validity{l, until})
		}
	}
	return all
}

// live reports whether the lease is still valid.
func (b Validity) live() bool { return !validUntil(b.lease).IsZero() }

// validUntil returns ValidUntil of a lease, without the loss that it may
// declare.
func validUntil(l *lease.Lease) time.Time {
	s := l.State()
	if s.Err != nil || time.Until(s.ValidUntil) <= 0 {
		return time.Time{}
	}
	return s.ValidUntil
}

// RequireValidity checks that a hold is not valid for longer than a lease that
// begins when the proxy got the first request that matches.
func (c *FaultBench) RequireValidity(h relock.Hold, match faults.Match, length time.Duration) {
	c.Helper()
	until := h.ValidUntil()
	require.False(c, until.IsZero(), "lost")
	for _, request := range c.Proxy.Seen() {
		if match(request.Args) {
			latest := request.At.Add(length - lockspec.Drift(length))
			require.False(c, until.After(latest), "valid for %v too long", until.Sub(latest))
			return
		}
	}
	require.FailNow(c, "there was no such request")
}
