package locktest

import (
	"github.com/relock-go/relock/internal/testkit"
)

// AwaitGone waits until nothing of the client's is in the queue, nor is the lock that was free.
func (q *QueueBench) AwaitGone(free bool) {
	q.Helper()
	keys := []any{q.Key + ":q"}
	if free {
		keys = append(keys, q.Key)
	}
	testkit.Eventually(q, testkit.Patience, func() bool { return q.Server.Do(q, "EXISTS", keys...) == int64(0) }, "nothing of a wait that was given up")
}
