// Package conns has the connections to one server. A [Pool] is the driver of a
// client that has one server, on a redigo pool of our own or of the user's.
//
// There are three sorts of connections. A caller borrows one of the pool
// (lend.go), callers share one (pipeline.go), and a worker has one (link.go).
// What all of them know of the server is in server.go.
//
// redigo's pool returns a wrapper that hides the connection. The functions that
// the pool calls to dial and to check a connection see it, and give it to the
// caller by its context (lend.go).
//
// Every read has a deadline: the command timeout, for locks at most a third of
// the lease ([driver.ForLease]). Getting a connection has at least a second,
// because validity does not count that time. Only Unlock is stricter.
//
// A connection in plain text that a server ends before it has ever answered may
// be at a port of TLS. Its error names rediss:// (plaintext.go).
//
// # Breaks
//
// A connection that ends with EOF or a reset is a break; a timeout is not. Idle
// connections older than a break are dropped when they are borrowed, and
// package script sends a script once more. So a server restart costs neither an
// error nor a PING. READONLY counts as a break: behind one address, another
// connection may lead to the new master. Its own connection is closed before
// another call can borrow it.
//
// # The shared connection
//
// [driver.Driver.Send] carries the commands of locks. Up to four calls have a
// connection of the pool each, since no hop between goroutines is faster than a
// caller's own I/O. The others share one connection (pipeline.go, stream.go),
// also with a user's pool. A call that waits for replicas never uses it.
// [driver.Driver.Call] does not either, for Eval, SetNEX and Ping of the
// client: a user's slow script delays no lock.
//
//   - Requests are answered in the order in which they are written. A
//     connection is only given up as a whole. It has one writer and one reader.
//   - A caller writes itself unless another is writing. With four or more under
//     way it yields first, so that others join its write. Writes that may block
//     are left to a goroutine: those of over 64 requests, and those while an
//     answer has been missing for 5 ms. All on a user's connection are, too,
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
//   - All callers wait for one dial, which has the whole dial timeout, and ends
//     with the server's first answer, as a link's. Each waits only as long as
//     its own limit. Once the dial has taken 100 ms, calls also use idle
//     connections of the pool. If it fails, they try one (aside.go).
//   - An unasked line that refuses clients (DENIED, max number of clients) is
//     the error of all calls. Any other unasked answer ends the connection.
//
// # Dials of calls
//
// A call that finds no idle connection has one opened on a goroutine
// (fetch.go). Once that has taken 100 ms, or has failed, the call uses one that
// another call returns. It leaves the dial to the next call, or else to the
// pool. A call that has waited 100 ms for such a dial dials itself, too, unless
// another dial was left or the pool has no room. So one more dial hangs, at
// most, than calls have waited together.
//
// # Links
//
// A [driver.Link] is a dedicated connection of a worker or of the subscription.
// A batch takes a detour (detour.go) while there is none: its dial was refused,
// hangs, or has no room at the server or in the process. A dial ends with the
// server's first answer (greet.go), so a new connection that is accepted and
// then silent is a dial that hangs, too. A dial has a moment first, a 48th of a
// lease. The detour uses an idle connection of the pool, or else the next one
// that a caller returns. If none is lent, or none comes back within a moment,
// it uses the shared one, too. If no answer comes, a copy of the batch goes
// over another connection: after a 24th of a lease, and then after twice the
// time each. The first whole answer counts. The link's own connection is used
// if it is there before that. The next batch dials again. A subscription never
// takes a detour; its waiters poll.
//
//   - A subscription (subscribe.go) has several channels, which are added and
//     dropped while it is received. One goroutine reads. A short one writes, if
//     none does already.
//   - The link owns its dial (opening.go). A dial that hangs goes on, and its
//     connection is the link's. It ends when the link is closed, or its node
//     retired. After a dial that was late, the next one has twice the time, up
//     to the dial timeout.
//   - The goroutine that sends a copy owns the borrowed connection and returns
//     it. All copies have the shortest limit of the worker's jobs, never
//     doubled, from the first one on. WAIT counts into that limit, and never
//     goes over the shared connection.
//   - A caller offers the connection that it returns to a batch that waits for
//     one (borrow.go). Only a batch that waits at that moment gets it, with its
//     place in the pool.
//   - An error in the middle is the result of all requests after it.
//   - WAIT follows the answers to its batch, if something was granted.
//   - A full server accepts a connection and then closes it. So no batch is
//     sent before the first answer on a new connection.
//   - Of a batch that was sent again, Result.Resent is true: the earlier copy
//     may have done the work, or may still do it.
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
//   - Each dial has one, and each batch on a borrowed connection.
//   - Each connection that a link drops has one for its Close, which may be a
//     user's and block.
//   - Taking a connection from a user's pool, or dialling as it does, has one.
//     So has each call of a user's dialer or credentials. Close does not wait
//     for these.
//
// Order of locks: a shared connection, then its stream. A
// goroutine that holds the mutex of a link or a socket takes no other. None is
// held while something is sent.
package conns
