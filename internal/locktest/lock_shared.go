package locktest

import (
	"github.com/relock-go/relock"
)

// WaitingIn is how many calls of the client sit in the line for a lock.
func WaitingIn(c *relock.Client, redisKey string) int {
	return len(Engine(c).Queue.State().Lines[redisKey].Waiters)
}
