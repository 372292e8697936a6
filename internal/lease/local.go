package lease

import (
	"time"

	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/script"
)

// Handed is what one call of a client hands to another. It is either a hold
// that is passed on, or a transfer.
type Handed struct {
	Hold     *Hold
	Transfer *Transfer
}

// Transfer is a reentrant lock in transit to the next local waiter. One request
// both releases a hold and acquires the next one. The unlocking caller sends
// it. The waiter makes a lease of what the server granted, under its own owner
// mutex.
//
// The request finds the old hold, or the new one if it arrives again. So a late
// copy changes nothing once another copy was executed. The same is true after a
// release that names both holds.
type Transfer struct {
	client *client
	key    string // the name given by the user
	Waiter *LocalWaiter
	Hold   string        // the id of the next hold
	Owner  string        // the id of its owner
	next   Protocol      // of the next hold
	sent   time.Time     // when the granted copy was sent
	since  time.Duration // when the lock was granted to the client, counted from its start
	passes int16         // how often it was handed off since then
	tokens script.Tokens // of the next hold
}

// LocalWaiters has the local waiters of a client.
type LocalWaiters = localwait.Waiters[Handed]

// LocalWaiter is one of them.
type LocalWaiter = localwait.Waiter[Handed]

// Offer is what a local waiter waits for.
type Offer = localwait.Offer[Handed]
