package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// RequireNoQueues checks that nothing is left of locks and queues, at the server and in the client.
func RequireNoQueues(t testing.TB, s *redistest.Server, c *relock.Client, keys ...string) {
	t.Helper()
	for _, key := range keys {
		testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "EXISTS", KeyOf(c, key), KeyOf(c, key)+":q") == int64(0) }, "nothing left of "+key)
	}
	testkit.Eventually(t, testkit.Patience, func() bool {
		state := Engine(c).Queue.State()
		return len(state.Lines) == 0 && state.Waits == 0
	}, "no waits are remembered")
	require.Zero(t, Engine(c).State().Leases)
}
