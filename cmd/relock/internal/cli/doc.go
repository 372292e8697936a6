// Package cli is the command relock.
//
// relock run takes three processes. relock has the client and the hold. Its
// child, the guard, is the same program, and knows until when the hold is
// valid. The guard's child is the command.
//
//	relock --orders--> guard ----> command
//	       <--report--
//
// Orders are how long the hold is valid, that it is lost, and signals for the
// command. The guard needs no answer of relock: if there is no order, it ends
// the command in time. It reports the number of the command's process, and
// ends when no process of the command's group is left. Its exit code is that of
// relock.
package cli
