// Package resume acquires locks that were detached, plain or reentrant ones. So
// it stands on the packages of both. docs/internals/detach.md has the protocol.
package resume
