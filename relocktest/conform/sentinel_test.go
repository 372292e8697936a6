package conform_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// Every kind of lock keeps the promises of all at a master that sentinels name,
// also behind a proxy that loses, delays and doubles messages.
func TestConformanceOverSentinel(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t, 20*time.Second) // a machine that stalls is no failover
	conformance(t, func(*testing.T) *server { return &server{set.Servers[0], newPrefix(), set} })
}

func (s *server) sentinelClient(t *testing.T, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := relock.NewClientSentinel(redistest.SentinelName, s.sentinels.Addresses(), "", append(opts, relock.WithKeyPrefix(s.prefix))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
