package driver

import (
	"context"
	"time"
)

// Driver is what the engine needs of a Redis client.
type Driver interface {
	// Send runs one command of a lock, within the limits and the client's own
	// timeouts. The first few have a connection out of the pool each, which
	// saves a hop between goroutines; more share one.
	Send(ctx context.Context, limit Limits, r Request) Result
	// Call runs one command, as Send does, on a connection out of the pool.
	Call(ctx context.Context, limit Limits, r Request) Result
	// Link returns a connection for one worker, apart from those of the
	// callers. It is opened when it is first used.
	Link() Link
	// Close cuts every connection, and waits for the calls under way.
	Close() error
}

// Limits bounds one call below the client's own timeouts; 0 does not.
type Limits struct {
	Connect time.Duration // getting a connection
	Answer  time.Duration // the command on it
	End     time.Time     // of all that belongs to it, commands that are sent again included; zero when there is none
}

// over reports whether nothing more may be sent.
func (l Limits) over() bool { return !l.End.IsZero() && time.Until(l.End) <= 0 }

// now is what is left of the limits.
func (l Limits) now() Limits {
	if !l.End.IsZero() {
		left := max(time.Until(l.End), time.Millisecond)
		l.Connect, l.Answer = below(left, l.Connect), below(left, l.Answer)
	}
	return l
}

// MinConnect is the least time that getting a connection has, however short the
// leases are.
const MinConnect = time.Second

// ForLease returns the limits of a command of a lock. The validity of a lease
// counts from the sending, so only the answer is in a hurry.
func ForLease(lease time.Duration) Limits {
	return Limits{Connect: max(lease/3, MinConnect), Answer: lease / 3}
}

// Link is a connection for one worker.
type Link interface {
	// Pipeline sends the requests together and returns a result for each,
	// within limit. While it cannot connect it uses a connection of the
	// callers.
	Pipeline(limit BatchLimit, requests []Request) []Result
	// Subscribe listens to a channel until the connection is cut, and returns
	// why.
	Subscribe(channel string, confirmed func(), message func(string)) error
	// Cut closes the connection; the next use opens another.
	Cut()
	// Close closes the connection for good.
	Close()
}

// below is limit where it is set and lower than d.
func below(d, limit time.Duration) time.Duration {
	if limit > 0 {
		return min(d, limit)
	}
	return d
}
