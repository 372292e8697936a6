package redistest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// Full is a server that accepts no more connections.
type Full struct {
	Control redis.Conn // the test's own, opened before the server was full
	open    map[string]bool
}

// FillUp makes the server accept no more connections than are open now.
func FillUp(t testing.TB, s *Server) *Full {
	t.Helper()
	control := s.Dial(t)
	t.Cleanup(func() { _ = control.Close() })
	_, err := control.Do("PING")
	require.NoError(t, err)
	full := &Full{control, Connections(t, control)}
	_, err = control.Do("CONFIG", "SET", "maxclients", len(full.open)+1)
	require.NoError(t, err)
	_, err = s.Try(t, "PING")
	require.Error(t, err, "the server is not full")
	return full
}

// Calls returns how often a command was called.
func (f *Full) Calls(t testing.TB, command string) int {
	t.Helper()
	text, err := redis.String(f.Control.Do("INFO", "commandstats"))
	require.NoError(t, err)
	return CallsIn(t, text, command)
}

// RequireSame checks that the server still has exactly the connections that
// were open before.
func (f *Full) RequireSame(t testing.TB) {
	t.Helper()
	require.Equal(t, f.open, Connections(t, f.Control), "connections were given up")
}

// Connections returns the ids of the server's connections, except that of conn.
func Connections(t testing.TB, conn redis.Conn) map[string]bool {
	t.Helper()
	own, err := redis.Int64(conn.Do("CLIENT", "ID"))
	require.NoError(t, err)
	text, err := redis.String(conn.Do("CLIENT", "LIST"))
	require.NoError(t, err)
	ids := map[string]bool{}
	for line := range strings.Lines(text) {
		id := strings.TrimPrefix(strings.Fields(line)[0], "id=")
		if id != strconv.FormatInt(own, 10) {
			ids[id] = true
		}
	}
	return ids
}

// CallsIn returns how often a command was called, by a reply to INFO
// commandstats.
func CallsIn(t testing.TB, text, command string) int {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			count, _, _ := strings.Cut(rest, ",")
			n, err := redis.Int([]byte(count), nil)
			require.NoError(t, err)
			return n
		}
	}
	return 0
}
