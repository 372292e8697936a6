// Package conform checks that a [relock.Locker] keeps relock's promises for
// every backend. They concern exclusion, waiting, contexts, loss, clean-up, and
// the order of a fair lock. Lost, late or doubled messages must leave nothing
// behind.
//
// A backend describes itself in a [Backend] and calls [Run] from one of its
// tests:
//
//	func TestConformance(t *testing.T) {
//		conform.Run(t, conform.Backend{
//			New: newLocker, Lease: time.Second, Left: keysInTheStore,
//		})
//	}
package conform
