// Package rwlock acquires read/write locks. The kind in the settings of a lock
// chooses the mode: to read or to write.
//
// All attempts of one owner run under its owner mutex, as for a reentrant lock.
// There are no local waiters: each call waits in Redis, since several may be
// granted together. If the owner has the lock already, the call goes one level
// deeper. An upgrade never waits.
package rwlock
