package scripttest

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// RedAcquire returns the reply of a RedLock's script, without the name of the
// server, which it checks.
func (b *Bench) RedAcquire(value string, lease time.Duration, least int64) []int64 {
	b.Helper()
	values, err := redis.Values(b.Try(script.Call{Script: script.RedLockAcquire, Args: []any{value, lease.Milliseconds(), least, "", 0}}))
	require.NoError(b, err)
	server, err := redis.String(values[1], nil)
	require.NoError(b, err)
	require.Regexp(b, "^[0-9a-f]{40}$", server)
	answer, err := redis.Int64s(append(values[:1:1], values[2:]...), nil)
	require.NoError(b, err)
	return answer
}

// RedValue returns the value that a hold stores at a node.
func RedValue(hold string, node int) string {
	return fmt.Sprintf("relock/1|p|%s.%d|c1|host|1|label|1", hold, node)
}
