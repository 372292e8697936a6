package queue_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

// untitled are tasks without IDs, for three scripts.
func untitled() []queue.Task { return make([]queue.Task, 150) }

// Enqueue returns the IDs that it has drawn. By them tasks are removed.
func TestEnqueueReturnsIDs(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	ids, err := q.Enqueue(t.Context(), append(untitled(), queue.Task{ID: "named", Key: "k"})...)
	require.NoError(t, err)
	require.Len(t, ids, 151)
	require.Equal(t, "named", ids[150])
	for _, id := range ids {
		require.NoError(t, q.Remove(t.Context(), id))
	}
	eventually(t, q, "it is empty", isEmpty)
	ids, err = q.Enqueue(t.Context())
	require.NoError(t, err)
	require.Empty(t, ids)
}

// A call that fails half way says which tasks are queued for certain, and which
// may be. With the IDs that it returned it is repeated.
func TestEnqueueFailsHalfWay(t *testing.T) {
	s := redistest.StartTCP(t)
	s.Do(t, "SCRIPT", "LOAD", script.TaskPut.Source)
	for name, tt := range map[string]struct {
		action  faults.Action
		unknown int // of the second script
	}{
		"refused":      {faults.ErrorLine("OOM command not allowed"), 0},
		"not answered": {faults.DropAnswer, maxTogether},
		"not executed": {faults.DropRequest, maxTogether},
	} {
		t.Run(name, func(t *testing.T) {
			p := faults.Start(t, s.Network, s.Address)
			c := newClient(t, &redistest.Server{Network: p.Network, Address: p.Address}, relock.WithCommandTimeout(faultTimeout))
			q, tasks := queueOf(t, c), untitled()
			p.On(faults.Script(script.TaskPut.SHA), 2, tt.action)
			ids, err := q.Enqueue(t.Context(), tasks...)
			require.Equal(t, tt.unknown > 0, errors.Is(err, relock.ErrUnconfirmed), "%v", err)
			var failed *queue.EnqueueError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, ids[:maxTogether], failed.Queued)
			require.ElementsMatch(t, ids[maxTogether:maxTogether+tt.unknown], failed.Unknown)
			require.Empty(t, failed.Duplicates)

			for i := range tasks {
				tasks[i].ID = ids[i]
			}
			again, err := newQueue(t, s).Enqueue(t.Context(), tasks...)
			require.Equal(t, ids, again)
			require.ErrorAs(t, err, &failed)
			require.Equal(t, ids[:maxTogether], failed.Duplicates[:maxTogether])
			require.ElementsMatch(t, ids, append(failed.Duplicates, failed.Queued...))
			eventually(t, q, "each is queued once", func(s queue.Stats) bool { return s.Ready == len(tasks) })
		})
	}
}

// maxTogether is how many tasks one script puts.
const maxTogether = 64
