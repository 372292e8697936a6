package locktest

import (
	"github.com/stretchr/testify/require"
)

// Name is the newest wait in the queue.
func (w *Waiting) Name() string {
	w.Bench.Helper()
	all := w.Bench.SnapshotQueue()
	require.NotEmpty(w.Bench, all)
	return all[len(all)-1]
}
