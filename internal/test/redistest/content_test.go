package redistest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Content says what DUMP says, but the same of what is equal.
func TestContent(t *testing.T) {
	s := Shared(t)
	long := strings.Repeat("x", 100) // for which a hash and a set keep no order
	for kind, commands := range map[string][2][]any{
		"string": {{"SET", "k", "a"}, {"SET", "k", "b"}},
		"hash":   {{"HSET", "k", "f", long, "g", "1"}, {"HSET", "k", "f", long, "g", "2"}},
		"list":   {{"RPUSH", "k", "a", "b"}, {"RPUSH", "k", "b", "a"}},
		"set":    {{"SADD", "k", long, "b"}, {"SADD", "k", long, "c"}},
		"zset":   {{"ZADD", "k", 1, "a", 2, "b"}, {"ZADD", "k", 2, "a", 1, "b"}},
		"stream": {{"XADD", "k", "1-1", "f", "a"}, {"XADD", "k", "1-1", "f", "b"}},
	} {
		var seen []string
		for _, command := range append(commands[:], commands[0]) {
			s.Do(t, command[0].(string), command[1:]...)
			seen = append(seen, s.Content(t, "k"))
			s.Do(t, "DEL", "k")
		}
		require.NotEqual(t, seen[0], seen[1], kind)
		require.Equal(t, seen[0], seen[2], kind)
		require.Contains(t, seen[0], kind)
	}
	require.Equal(t, `"none"`, s.Content(t, "k"))
	s.Do(t, "HSET", "k", "a", long, "b", "1", "c", "2")
	one := s.Content(t, "k")
	s.Do(t, "DEL", "k")
	s.Do(t, "HSET", "k", "c", "2", "b", "1", "a", long)
	require.Equal(t, one, s.Content(t, "k"), "in another order")
}
