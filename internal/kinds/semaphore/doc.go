// Package semaphore acquires permits of semaphores. Each call waits in Redis,
// for one permit. A permit has no owner, and the object of the user keeps no
// hold.
package semaphore
