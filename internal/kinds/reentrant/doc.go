// Package reentrant acquires reentrant locks, and builds the requests that
// enter, renew and release them (protocol.go).
//
// All attempts of one owner run under its owner mutex, one at a time
// ([lease.Owner.Try]). The mutex is held during a request, never during a
// pause, so two goroutines of one owner may both wait. If one is granted, the
// others are notified and go one level deeper instead of claiming. Then their
// entries are cancelled. A local waiter keeps its place until the level is
// granted: the owner may have unlocked again.
//
// A call for an unfair lock makes one attempt before it joins a line, unless
// another call of the client is using the lock.
package reentrant
