package proof

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A rolling deploy replaces six processes, half of which have WithFair, one
// after the other, by processes of the other mode, and back again. No call that
// may wait fails, no more holds are valid together than the kind allows, and
// each call is served in its turn.
func TestRollingDeployOfProcesses(t *testing.T) {
	t.Parallel()
	const processes = 6
	for _, kind := range []string{plain, reentrant, toWrite, permits} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRivals(t, kind, processes, callers)
			r.awaitServed()
			replaced := 0
			for end := time.Now().Add(pick(time.Minute, 4*time.Second)); time.Now().Before(end); {
				for i := range processes {
					r.fair[i] = !r.fair[i]
					r.crew.Replace(i, patience)
					r.awaitServed()
					replaced++
				}
			}
			visits := r.finish()
			require.Empty(t, tooMany(kind, visits), "valid together")
			longest := slices.MaxFunc(visits, func(a, b visit) int { return int(a.waited - b.waited) }).waited
			t.Logf("%d processes replaced, %d holds, the longest wait took %v", replaced, len(visits), longest)
			// An unfair process has one entry for both of its callers. Each
			// turn waits for the machine, so the length of one turn is judged,
			// on the average.
			r.watch.Check(longest/(callers*callers*processes), longestTurn)
		})
	}
}
