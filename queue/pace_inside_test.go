package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The pace follows what was measured: an answer that is almost too late is
// shortened before one is, and after fast ones it is back at its maximum.
func TestPaceFollowsTheLink(t *testing.T) {
	const limit = 4 * time.Second
	p := newPace()
	p.came(2<<20, 2*time.Second, limit)
	require.Equal(t, mostBytes, p.bytes, "half of the limit is fine")
	p.came(2<<20, 4*time.Second, limit)
	require.Equal(t, 1<<20, p.bytes)
	p.came(leastBytes-1, 4*time.Second, limit)
	require.Equal(t, 1<<20, p.bytes, "little says nothing of the link")
	p.came(1<<20, limit/4, limit)
	require.Equal(t, 2<<20, p.bytes)
	p.came(1<<20-1, 0, limit)
	require.Equal(t, 2<<20, p.bytes, "it was not what made the answer short")
	for _, want := range []int{512 << 10, 128 << 10, 1} {
		require.True(t, p.missed())
		require.Equal(t, want, p.bytes)
	}
	require.True(t, p.isOne())
	require.False(t, p.missed())
	p.came(900<<10, 4*time.Second, limit)
	require.True(t, p.isOne(), "it is not raised by a slow one")
	for _, want := range []int{leastBytes, 2 * leastBytes} {
		p.came(leastBytes/2, 0, limit)
		require.Equal(t, want, p.bytes)
	}
	p.came(3<<20, 0, limit)
	require.Equal(t, mostBytes, p.bytes)
}

// A receive of one record has two thirds of the lease, any other one a third.
func TestPaceLimits(t *testing.T) {
	p := newPace()
	require.Equal(t, 100*time.Millisecond, p.limits(300*time.Millisecond).Answer)
	for p.missed() {
		continue
	}
	require.Equal(t, 200*time.Millisecond, p.limits(300*time.Millisecond).Answer)
}
