// Package conformtest runs the conformance suite with the kinds of lock of the
// root package, at servers of any kind.
//
//	kinds.go    the kinds and modes of locks
//	servers.go  where the locks are, and faulty proxies before them
package conformtest
