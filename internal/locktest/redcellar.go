package locktest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// RedCellar keeps servers that were started for a later test: a RedLock counts none before it has been up for a lease, and tests that wait
// for that keep others from running.
var RedCellar cellar

type cellar struct {
	mu      sync.Mutex
	servers []cellared
}

type cellared struct {
	*redistest.Server
	stop func()
}

// cellarSize is more than one test takes.
const cellarSize = 12

// Take returns n servers, the oldest ones first, until the test ends, and starts as many for the next tests.
func (c *cellar) Take(t testing.TB, n int) (all []*redistest.Server) {
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
	for i := 0; i < n && len(c.servers) < cellarSize; i++ {
		c.lay(t)
	}
	return all
}

// lay starts one more; mu is held.
func (c *cellar) lay(t testing.TB) {
	t.Helper()
	redistest.Binary(t)
	s, stop, err := redistest.Launch()
	require.NoError(t, err)
	c.servers = append(c.servers, cellared{Taught(t, s), stop})
}

// Close stops those that no test has taken.
func (c *cellar) Close() {
	for _, s := range c.servers {
		s.stop()
	}
}
