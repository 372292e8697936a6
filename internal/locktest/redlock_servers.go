package locktest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// RedLease is the largest lease of most tests, so that new servers count soon.
const RedLease = 3 * time.Second

// RedServers keeps servers that were started for a later test. A RedLock counts
// no server before it has been up for a lease, and tests that wait for that
// keep others from running.
var RedServers serverStock

type serverStock struct {
	mu      sync.Mutex
	servers []stocked
}

type stocked struct {
	*redistest.Server
	stop func()
}

// stockSize is more than one test takes.
const stockSize = 12

// Take returns n servers until the test ends, the oldest ones first. It starts
// as many for the next tests.
func (c *serverStock) Take(t testing.TB, n int) (all []*redistest.Server) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.servers) < n {
		c.lay(t)
	}
	for _, s := range c.servers[:n] {
		t.Cleanup(s.stop)
		all = append(all, s.Server)
	}
	c.servers = c.servers[n:]
	for i := 0; i < n && len(c.servers) < stockSize; i++ {
		c.lay(t)
	}
	return all
}

// lay starts one more server. mu must be locked.
func (c *serverStock) lay(t testing.TB) {
	t.Helper()
	redistest.Binary(t)
	s, stop, err := redistest.Launch()
	require.NoError(t, err)
	c.servers = append(c.servers, stocked{WithScripts(t, s), stop})
}

// Close stops the servers that no test has taken.
func (c *serverStock) Close() {
	for _, s := range c.servers {
		s.stop()
	}
}

// NewRedServers returns n servers that have been up for longer than RedLease.
func NewRedServers(t testing.TB, n int) []*redistest.Server {
	t.Helper()
	all := RedServers.Take(t, n)
	for _, s := range all {
		AwaitUp(t, s)
	}
	return all
}

// AwaitUp waits until the server counts for leases of up to RedLease.
func AwaitUp(t testing.TB, s *redistest.Server) {
	t.Helper()
	s.AwaitUp(t, int(RedLease/time.Second)+1)
}
