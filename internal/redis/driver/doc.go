// Package driver is what the engine needs of a Redis client: a [Driver] with
// its nodes and links, requests, results, limits, and what the errors of a
// server mean. It opens no connection.
//
// The packages beside it stand on each other. Package wire is one connection,
// package conns all those to one server, and package routes sends the requests
// of a client with several servers. Packages sentinel and cluster find these
// servers, and package search is what both share.
//
// # Results
//
// A [Result] has the reply or the error of a request, the time right before the
// request was written, and whether an answer came. It distinguishes three
// cases:
//
//   - not sent: nothing happened at the server, and the time is zero;
//   - answered, by a value or a known error line: no copy is under way any
//     more;
//   - unanswered, by a timeout, a broken connection, a caller that left or an
//     unknown error line: the request may be executed now, later or never.
//
// The class of an error (class.go) decides what a call does that may wait: it
// ends, it waits, or it waits until the same unknown error has come for a
// minute (repeats.go). The known lines are in lines.go.
//
// INFO shows whether a server is a replica or a sentinel (role.go).
package driver
