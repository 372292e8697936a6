// Package testkit owns what tests of several packages share: waits with a
// limit, bounds on time that hold on a busy machine, bubbles of time, full
// servers, and servers whose replies the test chooses.
package testkit
