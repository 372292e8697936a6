// Package validity implements how long a grant is valid by the clock: what
// renews it, and what ends it. A grant is a lease of a lock, a hold of several
// keys or nodes, or a delivery of a task. The package knows none of them: each
// is a [Subject], and one that is renewed is a [Renewable].
//
// A [Validity] sends nothing (validity.go). A [Renewal] is one that a worker
// renews (renewal.go and schedule.go); life.go has its begin and its end.
//
// [Books] have the grants of one client. They are made of parts, each with its
// own file and state: the places of the grants, the expiry timers, the fleets
// of workers, the check for suspends, the switches of masters, the reports and
// the warnings. Only the places know the Renewal.
//
// # Validity and loss
//
// A grant is valid until the sending of the request that set its expiry, plus
// its length, less the [lockspec.Drift] of 1 % and 2 ms. An answered renewal,
// re-entry or Extend moves that forward, never back. A grant that the server
// refused has 200 ms left at most, in which the reason is read.
//
// A grant ends once. A timer declares the loss without asking anybody; as do
// Check and every operation, by the clock. One timer serves all grants of a
// client, and examines each when it would have expired, so a renewal costs it
// nothing (expiry.go). A grant enters the books under the mutex that Seal
// takes (places.go).
//
// # Renewal
//
// The renewal asks for the longest lease that is wanted. It is due a third of
// that length after the last sending, less up to a tenth at random. It is due
// sooner if validity would fall below two thirds of it. An error is retried
// within min(length/10, 500 ms). Grants that wait for replicas have a worker
// for each number and timeout, so that none waits for the replicas of others
// (fleets.go).
//
// When another master has replaced one, each grant asks it whether the hold is
// there, also one that is not renewed (recheck.go).
//
// # Suspended machines
//
// The clock of validity, CLOCK_MONOTONIC, stands still while a machine is
// suspended. On Linux package suspend checks for that (monitor.go). It does
// so when a hold is asked, before a request for a lock, at each grant and
// level, and every 250 ms. If it was suspended for more than 250 ms, all grants
// of the client end; each client of a RedLock ends its own. A grant that was
// requested before that was noticed ends, too. A grant enters the books first
// and loads the last check second. So the marking finds it there, or it waits
// for the mutex, or it sees the new check. This compares no clocks.
//
// # Goroutines and locks
//
// Books have the watchdog, one more worker for each setting of replicas, and
// the suspend monitor from the first grant on. All belong to the group of the
// client and end with its life. The timer has no goroutine until it fires.
//
// The mutex of the suspend monitor comes before that of a grant. After the
// latter comes one of four: that of the places, the timers, the fleets or a
// worker.
package validity
