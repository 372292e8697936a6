// Package scripttest owns what tests of the scripts share: a key on a real
// server to run them on, their requests by kind of lock, and checks of what is
// stored after them.
package scripttest
