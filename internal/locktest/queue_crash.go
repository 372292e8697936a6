package locktest

import (
	"github.com/relock-go/relock"
)

// Listeners is how many connections the server sends a client's messages to.
func (q *QueueBench) Listeners(c *relock.Client) int64 {
	q.Helper()
	reply := q.Server.Do(q, "PUBSUB", "NUMSUB", Prefix(c)+Engine(c).Identity.ID)
	return reply.([]any)[1].(int64)
}
