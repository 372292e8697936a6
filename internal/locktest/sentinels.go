package locktest

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// SentinelClient returns a client of the master of a set, with a new prefix. It
// is closed when the test ends.
func SentinelClient(t testing.TB, s *redistest.Sentinels, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	opts = append([]relock.ClientOption{relock.WithKeyPrefix("test:" + uuid.NewString() + ":")}, opts...)
	c, err := relock.NewClientSentinel(redistest.SentinelName, s.Addresses(), "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
