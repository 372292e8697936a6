package relock

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// crowded is a server that accepts no further connection.
type crowded struct {
	control redis.Conn // of the test's own, from before
	open    map[string]bool
}

// fillUp lets the server accept no connection beyond those that are open now.
func fillUp(t testing.TB, s *redistest.Server) *crowded {
	t.Helper()
	control := s.Dial(t)
	t.Cleanup(func() { _ = control.Close() })
	_, err := control.Do("PING")
	require.NoError(t, err)
	full := &crowded{control, connections(t, control)}
	_, err = control.Do("CONFIG", "SET", "maxclients", len(full.open)+1)
	require.NoError(t, err)
	_, err = s.Try(t, "PING")
	require.Error(t, err, "the server is not full")
	return full
}

// requireSame checks that all went over the connections that were there.
func (f *crowded) requireSame(t testing.TB) {
	t.Helper()
	require.Equal(t, f.open, connections(t, f.control), "connections were given up")
}
