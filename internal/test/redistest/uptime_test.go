package redistest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAwaitUp(t *testing.T) {
	t.Parallel()
	s := Start(t)
	started := time.Now()
	s.AwaitUp(t, 0)
	s.AwaitUp(t, 1)
	up, err := s.uptime(t)
	require.NoError(t, err)
	require.GreaterOrEqual(t, up, 1)
	require.LessOrEqual(t, up, int(time.Since(started)/time.Second)+2)
}
