package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Take outlives an answer that does not come, as on a busy machine, and takes
// only a lock that is free.
func TestTakeTriesAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, proxy := Behind(t, s, relock.WithCommandTimeout(AnswerLimit))
	proxy.On(faults.Command("SET"), 1, faults.DropAnswer)
	h := Take(t, relock.NewRedisLock("k", c).TryAcquire)
	require.NoError(t, h.Unlock(t.Context()))
	require.GreaterOrEqual(t, proxy.Count(faults.Command("SET")), 2)
}
