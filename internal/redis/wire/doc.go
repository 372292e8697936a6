// Package wire is one connection to a server: how it is dialled and logs in,
// how a caller waits on its socket, and how its answers are counted. redigo
// writes the requests and reads the answers; the I/O below it is here.
//
// # Calls
//
// A caller does its own I/O (conn.go). It sends, waits until the socket
// is readable, and reads. The context ends the wait. If it ends first, the
// connection stays whole: what was read stays in its buffer. A goroutine then
// takes the answer and returns the connection to the pool. It marks the
// abandoned call as answered, which the release retrier checks. If the socket
// cannot be waited on (TLS, Windows, a user's pool), the call itself runs on a
// goroutine.
//
// Every connection is one of redigo, and every pool is a redis.Pool. redigo's
// DoContext starts a goroutine for every call, and closes the connection when
// the context ends. That halved the pairs a second on 2 cores with a loopback
// server: two threads then wake each other. So redigo does no I/O. Below it is
// a net.Conn of this package (wire.go), which collects the requests that redigo
// writes. It gives redigo the bytes of an answer once all of it was read. The
// caller does the I/O of the wire. A command costs three system calls: a look
// at the idle socket, a write and a read. The write is part of the wait
// (readable_unix.go).
//
// # Answers are counted
//
// Redis does not number its answers. On connections that this package dialled,
// answers.go counts requests, and answers as their bytes arrive. With more
// answers than requests, any of them may be the surplus one. Then no value
// counts as an answer, of a whole batch neither, and the connection is not used
// again.
//
// An idle connection must be balanced before it is used: as many answers as
// requests, and nothing to read at its socket. The socket is not checked with
// TLS, whose records come unasked, and on Windows. A new connection is checked
// after AUTH and after SELECT, which dial.go sends itself for that reason.
package wire
