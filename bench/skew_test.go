package main

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of docs/scale.md: a million keys, drawn by Zipf's law. The hottest
// one has a share of all pairs. When it is handed off as often as one key can
// be, the others have had theirs.
func TestSkew(t *testing.T) {
	t.Parallel()
	const keys, handOffs = 1_000_000, 4500 // of one key a second, over processes: docs/internals/measured.md
	page, err := os.ReadFile("../docs/scale.md")
	require.NoError(t, err)
	for _, exponent := range []float64{0.6, 0.8, 1, 1.1} {
		sum := 0.0
		for k := 1; k <= keys; k++ {
			sum += math.Pow(float64(k), -exponent)
		}
		row := fmt.Sprintf("| %.1f | %.1f %% | %.0f thousand |", exponent, 100/sum, handOffs*sum/1000)
		require.Contains(t, string(page), row)
	}
}
