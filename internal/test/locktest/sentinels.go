package locktest

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// SentinelClient returns a client of the master of a set, with a new prefix. It
// is closed when the test ends.
func SentinelClient(t testing.TB, s *redistest.Sentinels, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return CloseLater(t)(relock.NewClientSentinel(redistest.SentinelName, s.Addresses(), "", apart(opts)...))
}
