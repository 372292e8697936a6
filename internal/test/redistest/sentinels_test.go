package redistest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A set replaces its master, however that ends, and becomes whole again. It
// loses what is not replicated, and nothing else.
func TestSentinels(t *testing.T) {
	t.Parallel()
	s := StartSentinels(t, time.Second)
	first := s.Servers[0]
	for _, one := range s.Sentinels {
		require.Equal(t, first, s.Master(t, one))
	}
	conn := first.Dial(t)
	defer conn.Close() //nolint:errcheck // its server is killed
	_, err := conn.Do("SET", "kept", 1)
	require.NoError(t, err)
	acks, err := conn.Do("WAIT", 2, 10_000) // for the writes of this connection
	require.NoError(t, err)
	require.EqualValues(t, 2, acks)
	s.CutReplication(t, first)
	first.Do(t, "SET", "lost", 1)
	first.Kill(t)
	second := s.AwaitSuccessor(t, first)
	s.RestoreReplication(t)
	require.EqualValues(t, 1, second.Do(t, "EXISTS", "kept", "lost"))
	second = s.Return(t, first)
	second.Pause(t)
	s.AwaitSuccessor(t, second)
	third := s.Return(t, second)
	require.EqualValues(t, 1, third.Do(t, "EXISTS", "kept", "lost"))
}
