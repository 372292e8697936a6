package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// Unconnected returns a client whose server is not there: whoever sends something is refused.
func Unconnected(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := relock.NewClient("tcp", ClosedPort(t), "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Equal(t, 0, PoolOf(c).ActiveCount())
		require.NoError(t, c.Close())
	})
	return c
}
