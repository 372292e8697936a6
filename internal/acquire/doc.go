// Package acquire owns how each kind of lock is acquired: one type for each, a
// [Target] that says which lock, the loop of attempts and pauses that all calls
// share, and the object that goroutines share.
//
// A call is owned by its caller's goroutine. Only the requests of a [Quorum] to
// its nodes run on goroutines of their managers, which outlive a call that does
// not wait for them.
//
// It also builds the requests that renew and release each kind (*_protocol.go),
// which package lease sends. What a call was granted belongs to package lease from then on. What it may
// have been granted, by a request without an answer, goes to the retrier when the
// call ends.
package acquire
