package driver

import (
	"context"
	"time"
)

// Driver is what the engine needs from a Redis client. It sends each request to
// the node of its key.
type Driver interface {
	// Send runs one command of a lock, within the limits and the client's
	// own timeouts. The first few calls have a connection of the pool each,
	// which saves a hop between goroutines. The others share one
	// connection.
	Send(ctx context.Context, limit Limits, r Request) Result
	// Call runs one command, as Send does, on a connection of the pool.
	Call(ctx context.Context, limit Limits, r Request) Result
	// Home returns the node of a key.
	Home(ctx context.Context, key string) (Node, error)
	// Known returns the node that a key had last, or else any node. It does
	// not block.
	Known(key string) Node
	// Nodes returns all nodes.
	Nodes(ctx context.Context) ([]Node, error)
	// LooksForMasters reports whether the driver finds another master after
	// a failover. Then a server that is none is no mistake in the settings.
	LooksForMasters() bool
	// Connections returns how many connections are open. Of a pool of the
	// user it returns those of the pool.
	Connections() int
	// Close closes every connection, and waits for the calls under way.
	Close() error
}

// Node is one server. Equal nodes are the same server.
type Node interface {
	// Address returns the address of the server. It is "" for a pool of the
	// user, and while no server is known.
	Address() string
	// Call runs one command on a connection of the pool.
	Call(ctx context.Context, limit Limits, r Request) Result
	// Link returns a connection for one worker, separate from those of the
	// callers. It is opened when it is first used.
	Link() Link
}

// Limits bounds one call more tightly than the client's own timeouts. 0 is no
// limit.
type Limits struct {
	Connect time.Duration // getting a connection
	Answer  time.Duration // the command on it
	// End limits all that belongs to the call, including commands that are
	// sent again. It is zero if there is no such limit.
	End time.Time
	// Beside is true if others are sent at the same moment. Send then uses
	// the shared connection, which writes them together.
	Beside bool
}

// HasPassed reports whether nothing more may be sent.
func (l Limits) HasPassed(now time.Time) bool { return !l.End.IsZero() && !now.Before(l.End) }

// At returns what remains of the limits.
func (l Limits) At(now time.Time) Limits {
	if !l.End.IsZero() {
		left := max(l.End.Sub(now), time.Millisecond)
		l.Connect, l.Answer = Below(left, l.Connect), Below(left, l.Answer)
	}
	return l
}

// MinConnect is the minimum time for getting a connection, even if the lease is
// shorter.
const MinConnect = time.Second

// ForLease returns the limits of a command of a lock. Validity counts from the
// sending, so only the answer is urgent.
func ForLease(lease time.Duration) Limits {
	return Limits{Connect: max(lease/3, MinConnect), Answer: lease / 3}
}

// Below returns the lower of d and limit. A limit of 0 is no limit.
func Below(d, limit time.Duration) time.Duration {
	if limit > 0 {
		return min(d, limit)
	}
	return d
}
