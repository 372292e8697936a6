// Package cluster asks the servers of a Cluster for the masters of its slots,
// and follows their redirects.
//
// One goroutine works for a client, from its first request on: it loads the
// table of the slots. docs/internals/slots.md says when. Each request to a
// server has a goroutine: for the slots (ask.go), or for a sign of life of a
// doubted master (doubt.go). A request for a lock reads the table from memory,
// without a mutex. A redirect corrects it immediately.
//
// The mutex is never held while something is sent.
package cluster
