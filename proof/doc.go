// Package proof holds the heavy tests of relock: processes that are stopped and killed, servers that crash and whose clocks jump, a
// state machine. It is a module of its own, so that users of relock do not download what it needs.
package proof
