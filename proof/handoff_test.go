package proof

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A hand-off between two clients of a Cluster takes as long as one of two
// clients of one server. They alternate, so that a busy machine delays both.
func TestHandOffOnAClusterIsAsFast(t *testing.T) {
	t.Parallel()
	one, c := redistest.StartTCP(t), redistest.StartCluster(t, 3, 0)
	for _, m := range []locktest.QueueMode{locktest.PlainUnfair, locktest.PlainFair} {
		benches := []*locktest.QueueBench{locktest.NewQueueBenchOn(t, one, m, 2), locktest.NewClusterBench(t, c, m, 2)}
		for _, q := range append(slices.Clone(benches), benches...) {
			handOffOf(q, 0) // connects
			handOffOf(q, 1)
		}
		var p50, p99 []float64
		for range 3 {
			var took [2][]time.Duration
			for n := range pick(1000, 60) {
				for i, q := range benches {
					took[i] = append(took[i], handOffOf(q, n))
				}
			}
			p50, p99 = append(p50, ratioAt(took, 0.5)), append(p99, ratioAt(took, 0.99))
			t.Logf("%s: p50 %v and %v (%.2f x), p99 %v and %v (%.2f x)", m.Title(),
				at(took[0], 0.5), at(took[1], 0.5), p50[len(p50)-1], at(took[0], 0.99), at(took[1], 0.99), p99[len(p99)-1])
		}
		slices.Sort(p50)
		slices.Sort(p99)
		require.Less(t, p50[1], pick(1.25, 2.0))
		require.True(t, p99[1] < 1.5 || !*long)
	}
}

// handOffOf returns the time from the Unlock of one client until the other has
// the lock.
func handOffOf(q *locktest.QueueBench, n int) time.Duration {
	q.Helper()
	from, to := q.Clients[n%2], q.Clients[1-n%2]
	h := q.TakeReleased(from)
	w := q.WaitNext(q.Context(), 0, to)
	next, d := q.HandOff(h, w)
	q.Unlock(next)
	return d
}

// at returns a quantile. It sorts the times.
func at(all []time.Duration, quantile float64) time.Duration {
	slices.Sort(all)
	return all[int(quantile*float64(len(all)-1))]
}

func ratioAt(took [2][]time.Duration, quantile float64) float64 {
	return float64(at(took[1], quantile)) / float64(at(took[0], quantile))
}
