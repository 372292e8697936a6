// Package driver owns the connections to the servers of a client, and is the
// only package that knows redigo: its pool, its connections and its errors.
//
// # Servers
//
// A [Pool] is one server. It is the [Driver] of a client that has one. A
// [Router] is that of a client with several: it has a node for each address
// that its [Topology] has named, and sends each request to the node of its key.
// A node is a pool that notifies the topology of failures. After a change,
// change.go retires the nodes of servers that are no master any more.
// docs/routes.md has the design. The rest of this page is about one server.
//
// A server of a Cluster redirects a request whose key is elsewhere: by MOVED,
// or while the slot is being moved by ASK (redirect.go). The node that was
// asked sends it on (follow.go), at most five times. So it does if it was
// retired before. The request was executed at none of the servers before, so
// only the last copy counts. In the batch of a link, each redirected request
// follows alone, and the others do not wait for longer than for a borrowed
// connection.
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
// A connection in plain text that a server ends before it has ever answered may
// be at a port of TLS. Its error names rediss:// (plaintext.go). INFO shows
// whether a server is a replica or a sentinel (role.go).
//
// # Calls
//
// A caller does its own I/O (run.go, conn.go). It sends, waits until the socket
// is readable, and reads. The context ends the wait. If it ends first, the
// connection stays whole: what was read stays in its buffer. A goroutine then
// takes the answer and returns the connection to the pool. It marks the
// abandoned [Call] as answered, which the release retrier checks. If the socket
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
// redigo's pool returns a wrapper that hides the connection. The functions that
// the pool calls to dial and to check a connection see it, and give it to the
// caller by its context (lend.go).
//
// Every read has a deadline: the command timeout, for locks at most a third of
// the lease ([ForLease]). Getting a connection has at least a second, because
// validity does not count that time. Only Unlock is stricter.
//
// # Breaks
//
// A connection that ends with EOF or a reset is a break; a timeout is not. Idle
// connections older than a break are dropped when they are borrowed, and
// package script sends a script once more. So a server restart costs neither an
// error nor a PING. READONLY counts as a break: behind one address, another
// connection may lead to the new master.
//
// # The shared connection
//
// [Driver.Send] carries the commands of locks. Up to four calls have a
// connection of the pool each, since no hop between goroutines is faster than a
// caller's own I/O. The others share one connection (pipeline.go, stream.go),
// also with a user's pool. A call that waits for replicas never uses it. Nor
// does [Driver.Call], for Eval, SetNEX and Ping of the client: a user's slow
// script delays no lock.
//
//   - Requests are answered in the order in which they are written. A
//     connection is only given up as a whole. It has one writer and one reader.
//   - A caller writes itself unless another is writing. With four or more under
//     way it yields first, so that others join its write. Writes that may block
//     are left to a goroutine: those of over 64 requests, and those while an
//     answer has been missing for 5 ms. So are all on a user's connection,
//     which has no write limit.
//   - Sent, from which validity counts, is taken before the first byte of a
//     batch. A batch that takes longer to write than the command timeout ends
//     the connection. It is written in parts of 32 KB, so that the connection
//     keeps its buffer.
//   - A caller waits on one channel. Later calls use it again with the rest of
//     a [Call], unless its caller has left. One timer of the connection wakes
//     the callers whose time is over (shared_call.go, watch.go).
//   - A caller that leaves abandons its answer. If its request was not yet
//     written, it never is.
//   - A connection that was silent since a leaving call began, and for 100 ms,
//     is retired. It takes no more requests, and has until the command timeout
//     for the others. So a dead connection costs one call its limit, and a
//     short lease ends nothing under others. READONLY, the pool's idle timeout
//     and its connection lifetime retire it too.
//   - A break ends the written calls as unanswered; the others use the next
//     connection. Only the reader ends calls.
//   - All callers wait for one dial, which has the whole dial timeout. Each
//     waits only as long as its own limit.
//   - An unasked line that refuses clients (DENIED, max number of clients) is
//     the error of all calls. Any other unasked answer ends the connection.
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
//
// # Links
//
// A [Link] is a dedicated connection of a worker or of the subscription. If a
// dial is refused or hangs for a second, the batch takes a detour (detour.go).
// It uses an idle connection of the pool, or else the shared one. The server's
// maxclients or the limit of files may be used up. The next batch dials again.
// A subscription never takes a detour; its waiters poll.
//
//   - A subscription (subscribe.go) has several channels, which are added and
//     dropped while it is received. One goroutine reads. A short one writes, if
//     none does already.
//   - The link owns its dial (opening.go). A dial that hangs goes on, and its
//     connection is the link's. It ends when the link is closed, or its node
//     retired.
//   - The goroutine that sends a batch owns the borrowed connection and returns
//     it. It has it for the shortest limit of the worker's jobs, never doubled,
//     from the time that it got it. WAIT counts into that limit, and never goes
//     over the shared connection.
//   - An error in the middle is the result of all requests after it.
//   - WAIT follows the answers to its batch, if something was granted.
//   - A full server accepts a connection and then closes it. So a batch that
//     broke before the first answer on a new connection is sent again. Then
//     Result.Resent is true, as an earlier copy may have done the work.
//
// # Goroutines
//
// The pool starts them in its group. Close cuts the sockets under all calls,
// and waits for them for up to 40 ms.
//
//   - The shared connection has a reader and a writer, until it is lost.
//   - An abandoned call has one until its answer, its deadline or Close.
//   - A call that cannot wait on its socket has one, if its context can end; on
//     a user's pool always.
//   - Each dial of a link and each batch on a borrowed connection has one.
//   - Each connection that a link drops has one for its Close, which may be a
//     user's and block.
//   - Taking a connection from a user's pool, or dialling as it does, has one.
//     So has each call of a user's dialer or credentials. Close does not wait
//     for these.
//   - A router has one that reads the changes of its topology.
//
// Order of locks: the router, then a shared connection, then its stream. A
// goroutine that holds the mutex of a link or a socket takes no other. None is
// held while something is sent.
package driver
