// Package containertest holds the tests that run the basics of relock on a Redis in a container: over TCP, through the public
// API, and with a server that can be stopped for real.
//
// It is a module of its own, so that users of relock do not get dockertest and all that it needs.
package containertest
