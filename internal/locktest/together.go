package locktest

import (
	"math/rand/v2"
	"testing"
)

// Drawn returns every third cell of a large matrix, from a random one on, unless
// all are wanted. Neighbours differ in the fault only, so that each operation
// meets a third of the faults.
func Drawn(t *testing.T, cells []CellRun) []CellRun {
	t.Helper()
	if AllCells() {
		return cells
	}
	const nth = 3
	first := rand.IntN(nth)
	t.Logf("one cell in %d of %d, from number %d; RELOCK_CELLS=all runs all", nth, len(cells), first)
	var some []CellRun
	for i := first; i < len(cells); i += nth {
		some = append(some, cells[i])
	}
	return some
}
