// Package sentinel asks the sentinels of a replicated server for its master,
// and follows its failovers.
//
// Two goroutines work for a client, from its first request on. One looks: it
// asks the sentinels, one after another, and checks the answer at the server.
// It looks every 10 s, after a message of a sentinel, and as soon as a server
// does not answer. The other one listens: it subscribes to the messages of the
// sentinel that answered last.
//
// A request gets the master from memory. Only before the first answer it waits.
// A master that was found once stays the master until another one is found: if
// all sentinels are down, locks continue to work.
//
// The mutex is never held while something is sent.
package sentinel
