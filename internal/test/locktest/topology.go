package locktest

import (
	"context"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/google/uuid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Topology is a topology of real servers. Keys are spread over its masters, by
// their tags.
type Topology struct {
	*directory
	notifies bool            // its clients
	changes  []chan struct{} // one for each client
	asked    int
}

// NewTopology returns a topology of these masters. If it notifies, SetMasters
// is known to its clients immediately.
func NewTopology(notifies bool, masters ...*redistest.Server) *Topology {
	return &Topology{directory: newDirectory(masters), notifies: notifies}
}

// Sharded makes the clients use sharded channels, as those of a Cluster do.
func (p *Topology) Sharded() *Topology {
	p.sharded = true
	return p
}

// Client returns a client of the topology. It is closed when the test ends.
func (p *Topology) Client(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return p.client(t, &driver.Topology{Master: p.master, Changes: p.changesOfOne()}, opts)
}

// NewRoutedClient returns a client of the servers of t.
func NewRoutedClient(t *driver.Topology, opts ...relock.ClientOption) (*relock.Client, error) {
	made, err := engine.NewClient(t, opts)
	client, _ := made.(*relock.Client)
	return client, err
}

// Routed returns a client of a topology of two servers, with a new prefix. The
// first one has all keys. It is closed when the test ends.
func Routed(t testing.TB, s, idle *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	all := []string{s.Address, idle.Address}
	return CloseLater(t)(NewRoutedClient(&driver.Topology{
		Master:  func(context.Context, string) (string, error) { return s.Address, nil },
		Masters: func(context.Context) ([]string, error) { return all, nil },
	}, apart(opts)...))
}

// Of returns the master of the lock with this name.
func (p *Topology) Of(name string) *redistest.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of(p.Key(name))
}

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

// Asked returns how often the topology was asked for a key.
func (p *Topology) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
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
