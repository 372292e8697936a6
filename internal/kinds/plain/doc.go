// Package plain acquires plain locks, and builds the requests that renew and
// release them (protocol.go). The keys of a MultiLock and the nodes of a
// RedLock have plain locks, too, so their packages stand on this one.
//
// The first attempt is SET NX, then the script. A fair lock, one with fencing
// and one with replicas start with a script. A call that waits tries SET NX
// once before it joins a line, since the lock is usually uncontended. It skips
// that if another call of the client is using the lock.
package plain
