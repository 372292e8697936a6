package lease

import "github.com/relock-go/relock/internal/localwait"

// Handed is what one call of a client hands to another. It is either a hold
// that is passed on, or a transfer.
type Handed struct {
	Hold     *Hold
	Transfer *Transfer
}

// LocalWaiters has the local waiters of a client.
type LocalWaiters = localwait.Waiters[Handed]

// LocalWaiter is one of them.
type LocalWaiter = localwait.Waiter[Handed]

// Offer is what a local waiter waits for.
type Offer = localwait.Offer[Handed]
