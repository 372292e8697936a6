// Package routes sends the requests of a client with several servers. A
// [Router] has a node for each address that its topology has named, and sends
// each request to the node of its key. A node is a pool that notifies the
// topology of failures. After a change, change.go retires the nodes of servers
// that are no master any more. docs/internals/routes.md has the design.
//
// A server of a Cluster redirects a request whose key is elsewhere: by MOVED,
// or while the slot is being moved by ASK. The node that was asked sends it on
// (follow.go), at most five times. It does the same if it was retired before.
// The request was executed at none of the servers before, so only the last copy
// counts. In the batch of a link, each redirected request follows alone, and
// the others do not wait for longer than for a borrowed connection.
//
// A router has one goroutine, which reads the changes of its topology. Its
// mutex comes before those of a connection. It is never held while something is
// sent.
package routes
