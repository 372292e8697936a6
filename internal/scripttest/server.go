package scripttest

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// InfoField returns a number from the reply to INFO.
func InfoField(t testing.TB, s *redistest.Server, section, field string) int64 {
	t.Helper()
	text, err := redis.String(s.Do(t, "INFO", section), nil)
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			n, err := redis.Int64([]byte(value), nil)
			require.NoError(t, err)
			return n
		}
	}
	require.FailNow(t, "no such field", field)
	return 0
}
