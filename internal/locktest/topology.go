package locktest

import (
	"context"
	"errors"
	"hash/crc32"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
)

// Topology is a topology of real servers. Keys are spread over its masters, by
// their tags.
type Topology struct {
	prefix   string
	notifies bool // its clients
	sharded  bool

	mu      sync.Mutex
	changes []chan struct{}     // one for each client
	masters []*redistest.Server // that have a share of the keys each
	err     error
	invalid map[string]int
	asked   int
	listed  int
}

// NewTopology returns a topology of these masters. If it notifies, SetMasters
// is known to its clients immediately.
func NewTopology(notifies bool, masters ...*redistest.Server) *Topology {
	return &Topology{prefix: "test:" + uuid.NewString() + ":", notifies: notifies, masters: masters, invalid: map[string]int{}}
}

// Sharded makes the clients use sharded channels, as those of a Cluster do.
func (p *Topology) Sharded() *Topology {
	p.sharded = true
	return p
}

// Client returns a client of the topology. It is closed when the test ends.
func (p *Topology) Client(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := relock.NewClientTopology(relock.Topology{
		Master: p.master, Masters: p.all, Invalidate: p.invalidate, Changes: p.changesOfOne(), Sharded: p.sharded,
	}, append([]relock.ClientOption{relock.WithKeyPrefix(p.prefix)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Routed returns a client of a topology of two servers, with a new prefix. The
// first one has all keys. It is closed when the test ends.
func Routed(t testing.TB, s, idle *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	all := []string{s.Address, idle.Address}
	c, err := relock.NewClientTopology(relock.Topology{
		Master:  func(context.Context, string) (string, error) { return s.Address, nil },
		Masters: func(context.Context) ([]string, error) { return all, nil },
	}, append([]relock.ClientOption{relock.WithKeyPrefix("test:" + uuid.NewString() + ":")}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Of returns the master of the lock with this name.
func (p *Topology) Of(name string) *redistest.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of(p.Key(name))
}

// Key returns the key of the lock with this name.
func (p *Topology) Key(name string) string { return p.prefix + "{" + name + "}" }

// Names returns a name of a lock at each master.
func (p *Topology) Names(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, s := range p.masters {
		names = append(names, p.NameAt(s))
	}
	return names
}

// NameAt returns a new name of a lock at this master.
func (p *Topology) NameAt(s *redistest.Server) string {
	for {
		if name := uuid.NewString(); p.Of(name) == s {
			return name
		}
	}
}

func (p *Topology) changesOfOne() <-chan struct{} {
	if !p.notifies {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := make(chan struct{}, 1)
	p.changes = append(p.changes, changes)
	return changes
}

// Name changes the masters. The clients have to find out.
func (p *Topology) Name(masters ...*redistest.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.masters = masters
}

// SetMasters changes the masters, and notifies the clients.
func (p *Topology) SetMasters(masters ...*redistest.Server) {
	p.Name(masters...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, changes := range p.changes {
		select {
		case changes <- struct{}{}:
		default: // not read yet
		}
	}
}

// Fail makes the topology return an error, or work again if it is nil.
func (p *Topology) Fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// Invalidations returns how often the server was invalidated.
func (p *Topology) Invalidations(s *redistest.Server) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.invalid[s.Address]
}

// Asked returns how often the topology was asked for a key.
func (p *Topology) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// Listed returns how often the topology was asked for all servers.
func (p *Topology) Listed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed
}

func (p *Topology) of(key string) *redistest.Server {
	return p.masters[int(crc32.ChecksumIEEE([]byte(driver.TagOf(key))))%len(p.masters)]
}

func (p *Topology) master(_ context.Context, key string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if len(p.masters) == 0 {
		return "", errNoMaster
	}
	return p.of(key).Address, p.err
}

var errNoMaster = errors.New("no master at the moment")

func (p *Topology) all(context.Context) (addresses []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed++
	for _, s := range p.masters {
		addresses = append(addresses, s.Address)
	}
	return addresses, p.err
}

func (p *Topology) invalidate(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.invalid[address]++
}
