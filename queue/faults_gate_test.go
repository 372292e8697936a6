package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/queue"
)

const promise = "promise"

// Tasks that run under a lock run once each, one at a time, whatever happens to
// the messages by which they wait for it.
func TestFaultsOfGates(t *testing.T) {
	t.Parallel()
	const lock = "busy"
	for name, match := range map[string]faults.Match{
		"go behind the lock": func(args []string) bool {
			return faults.Script(script.TaskSettle.SHA)(args) && args[len(args)-2] == "b"
		},
		"receive by lock": func(args []string) bool {
			return faults.Script(script.TaskReceive.SHA)(args) && args[len(args)-2] == lock
		},
		promise: faults.Script(script.TaskGate.SHA),
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(c *faultCell) { testFaultOfGate(t, c, name, lock, match) }, queue.WithLease(2*time.Second))
		})
	}
}

func testFaultOfGate(t *testing.T, c *faultCell, name, lock string, match faults.Match) {
	const tasks = 3
	locker := newLocker(c, c.well)
	h := hold(c, locker, lock)
	var runs, inside atomic.Int64
	c.meetsIf(match)
	stop := processing(c, c.q, func(context.Context, *queue.Delivery) error {
		if inside.Add(1) != 1 {
			t.Error("two run under the lock")
		}
		defer inside.Add(-1)
		runs.Add(1)
		return nil
	}, queue.WithLocker(locker, byHeader))
	enqueueUnder(c, c.other, lock, named(tasks)...)
	eventually(c, c.other, "all wait", func(s queue.Stats) bool { return s.Behind == tasks })
	if name == promise {
		c.late()
	}
	require.NoError(c, h.Unlock(c.Context()))
	eventually(c, c.other, "all are done", isEmpty)
	c.late()
	eventually(c, c.other, "none has come back", isEmpty)
	require.NoError(c, stop())
	require.Equal(c, int64(tasks), runs.Load())
}
