// Package locktest has what the tests of several packages do with clients and
// locks: clients of a server, calls that wait, faults in one operation, and
// checks of what is left in Redis.
//
// Engine, Level and their like return what is below the public API, so that the
// API has nothing for tests.
package locktest
