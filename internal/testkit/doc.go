// Package testkit owns what tests of several packages share: waiting with a
// limit, servers that are full, servers that answer with a given text.
package testkit
