// Package testkit owns what tests of several packages share: waits with a
// limit, full servers, and servers that answer with a given text.
package testkit
