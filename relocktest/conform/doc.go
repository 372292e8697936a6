// Package conform checks that a [relock.Locker] does what relock promises of every backend: exclusion, waiting, contexts,
// loss, clean-up, order where it is fair, and that messages which are lost, late or doubled leave nothing behind.
//
// A backend describes itself in a [Backend] and calls [Run] from one of its tests:
//
//	func TestConformance(t *testing.T) {
//		conform.Run(t, conform.Backend{New: newLocker, Lease: time.Second, Left: keysInTheStore})
//	}
package conform
