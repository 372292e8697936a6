// Package scripttest owns what tests of the scripts share. It provides a key on
// a real server to run them on, and their requests by kind of lock. It also
// checks what is stored after them.
package scripttest
