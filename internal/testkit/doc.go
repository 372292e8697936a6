// Package testkit owns what tests of several packages share: waits with a
// limit, full servers, and servers whose replies the test chooses.
package testkit
