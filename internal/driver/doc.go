// Package driver owns the connections to one server, and is the only package
// that knows redigo: its pool, its replies and its errors.
//
// A [Pool] sends one command for a caller ([Driver.Send], [Driver.Call]). The
// first few calls have a connection each; more share one (pipeline.go). A
// [Link] is a connection of a worker, which sends batches or listens to a
// channel. If a worker cannot connect, its batch goes over an idle connection
// of the pool, or over the shared one.
//
// A [Result] distinguishes three cases: the request was not sent; the server
// answered it; or it is unanswered, and may be executed now, later or never.
//
// Goroutines: the pool starts each one in its group, and Close waits for it.
// The shared connection has a reader and a writer until it is lost. A caller
// that leaves hands its connection to a goroutine, which waits for the answer.
//
// Order of locks: the shared connection, then its stream. The mutexes of links
// and sockets are held alone. None is held while something is sent.
package driver
