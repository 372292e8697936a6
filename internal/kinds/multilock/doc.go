// Package multilock acquires MultiLocks: the locks of several keys, all or
// none.
//
// Each key of the hold has a plain lock, so this package stands on package
// plain. Package lease makes one hold of them, and docs/internals/protocol.md
// has the requests.
//
// # A call
//
// A call has at most one queue entry, of the first busy key. After 8 moves to
// another key in one attempt it leaves the queue and pauses. The fourth key
// that it is handed in vain gives it a right of way (way.go): it keeps keys
// while it waits. The protocol has the rules.
//
// # Groups of keys
//
// Keys that one script cannot take form groups (together.go): those of one tag
// on a Cluster, those of one server otherwise. The first try of a call asks for
// all groups together. It holds what it gets until the last answer only, and
// waits for nothing but answers. So it closes no circle: a waiter that meets
// one of these keys gets it by the release, at the latest. All later tries ask
// for one key after another, in order, and only they keep keys. So no two calls
// refuse each other forever. If a group is refused, or is not answered, the
// other groups are released by value, and the unanswered one is cleaned up. The
// next tries name the value of that try as their own, so they do not meet a key
// that its release has not reached yet.
//
// A call that does not wait and got some of the groups first releases them. It
// then makes one try in order: otherwise two such calls would share the keys
// out and both fail. They still do if one starts while the other goes in order.
// A call that waits for replicas goes in order from the start, since each
// request occupies a connection. If one server refuses keys of several slots,
// the manager remembers that, and all calls of the client go in order.
package multilock
