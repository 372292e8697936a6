// Package containers has the tests that run the basics of relock on a Redis
// in a container: over TCP, through the public API, and with a server that can
// really be stopped.
//
// It is a separate module, so that users of relock do not get dockertest and
// its dependencies.
package containers
