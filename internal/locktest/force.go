package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// Take2 holds the lock that somebody waits for only to have a subscription.
func (q *QueueBench) Take2(t testing.TB) relock.Hold {
	h, err := relock.NewRedisLock("other", q.Clients[1]).Acquire(t.Context())
	require.NoError(t, err)
	return h
}
