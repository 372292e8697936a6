package locktest

import (
	"context"
	"sync"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
)

// directory is what a Topology and Routes share.
type directory struct {
	prefix  string
	sharded bool // the clients use sharded channels

	mu      sync.Mutex // of the embedding topology too
	masters []*redistest.Server
	err     error          // of the topology
	invalid map[string]int // by address
	listed  int
}

func newDirectory(masters []*redistest.Server) *directory {
	return &directory{prefix: newPrefix(), masters: masters, invalid: map[string]int{}}
}

// client returns a client of a topology with this directory. It is closed when
// the test ends.
func (d *directory) client(t testing.TB, p *driver.Topology, opts []relock.ClientOption) *relock.Client {
	t.Helper()
	p.Masters, p.Invalidate, p.Sharded = d.all, d.invalidate, d.sharded
	return CloseLater(t)(NewRoutedClient(p, append([]relock.ClientOption{relock.WithKeyPrefix(d.prefix)}, opts...)...))
}

// Key returns the key of the lock with this name.
func (d *directory) Key(name string) string { return d.prefix + "{" + name + "}" }

// Invalidations returns how often the server was invalidated.
func (d *directory) Invalidations(s *redistest.Server) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.invalid[s.Address]
}

// Listed returns how often the topology was asked for all servers.
func (d *directory) Listed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listed
}

func (d *directory) all(context.Context) (addresses []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listed++
	for _, s := range d.masters {
		addresses = append(addresses, s.Address)
	}
	return addresses, d.err
}

func (d *directory) invalidate(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.invalid[address]++
}
