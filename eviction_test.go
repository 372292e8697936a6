package relock

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// Ping says once that the server may evict locks, and only of one that may. It needs no permission for that.
func TestPingWarnsOfEviction(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, tt := range []struct {
		name, limit, policy, rule string
		warns                     bool
	}{
		{"no limit", "0", "allkeys-lru", "+info", false},
		{"no eviction", "100mb", "noeviction", "+info", false},
		{"locks first", "100mb", "volatile-ttl", "+info", true},
		{"any key", "100mb", "allkeys-lru", "+info", true},
		{"INFO denied", "100mb", "allkeys-lru", "-info", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.Do(t, "CONFIG", "SET", "maxmemory", tt.limit, "maxmemory-policy", tt.policy)
			s.Do(t, "ACL", "SETUSER", "app", "reset", "on", ">password", "+@all", tt.rule)
			var log logBuffer
			c, err := NewClient(s.Network, s.Address, "password", WithUsername("app"), log.option())
			require.NoError(t, err)
			defer c.Close() //nolint:errcheck // the log is what matters
			for range 2 {
				require.NoError(t, c.Ping(t.Context()))
			}
			require.Equal(t, tt.warns, strings.Count(log.String(), "policy="+tt.policy) == 1, log.String())
			require.Equal(t, tt.warns, log.String() != "")
		})
	}
}
