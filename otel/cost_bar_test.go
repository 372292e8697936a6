//go:build !race

package relockotel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	relockotel "github.com/relock-go/relock/otel"
)

// The metrics of a pair cost at most 3 µs, in the best of many blocks. A block
// is so short that the machine interrupts few of them: the bound needs no
// lateness. The race detector would measure itself.
func TestCostOfAPair(t *testing.T) {
	const blocks, pairs, bar = 100, 100, 3 * time.Microsecond
	l := newLab(t, relockotel.WithName(named))
	o, ctx := l.Locks(), t.Context()
	best := time.Hour
	for range blocks {
		start := time.Now()
		for range pairs {
			pair(ctx, o, start, start)
		}
		best = min(best, time.Since(start))
	}
	t.Logf("%v a pair", best/pairs)
	require.Less(t, best, pairs*bar)
}
