// Package outage logs that waiting calls of a client reach no server that they
// can use. Otherwise a call without a limit would wait for ever, and nobody
// would learn why.
//
// There is a [Log] for each client, and a [Call] for each call that waits. A
// failed attempt is passed to [Log.Failed], and any other one to
// [Log.Answered]. The attempts give the times, so there is no timer. These are
// the lines:
//
//   - a warning once a call has got no answer for a second, and then every 30 s
//     at most, for each server. The time is that of each call. So answers to
//     others change nothing: a server may serve one key and not another one;
//   - an info when the first of the calls that fail there gets an answer. If
//     none is left, it is the next call that is answered there;
//   - an info when the last call that waits ends without an answer.
//
// An info follows a warning only. So there are two lines in 30 s at most for
// each server, however many calls wait, and however often it comes and goes. A
// server that no call uses for a minute is forgotten, without a line.
//
// A line is written on a goroutine of the client, after the line before. Under
// the mutex of a log only that goroutine is started, and nothing is logged.
// While no outage is open, a call that meets no failure takes no mutex, and
// allocates nothing.
//
// The client of etcd repeats a request for up to 3 s. So a call of etcdlock
// asks after [Patience] why no server can be reached. It knows no address.
//
// The nodes of a RedLock are noted by the logs of their clients. How many calls
// wait is known of its first client. A round that others decide is no answer.
package outage
