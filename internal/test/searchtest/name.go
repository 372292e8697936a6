package searchtest

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A name that no resolver knows, and a port of it.
const (
	SeedHost = "seed.test"
	SeedName = SeedHost + ":1"
)

// NamedServer is where the name of a seed leads. At the addresses in Moved is
// nothing.
type NamedServer struct {
	To    atomic.Pointer[redistest.Server]
	Moved []string
}

// dial connects as the system does, if it resolved the name.
func (n *NamedServer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	switch host, port, _ := net.SplitHostPort(address); {
	case slices.Contains(n.Moved, address):
		return nil, errors.New("nothing is there")
	case address == SeedName:
		address = n.To.Load().Address
	case host == SeedHost: // another port of that host
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Config returns the settings of connections that resolve the name.
func (n *NamedServer) Config() *driver.Config {
	c := Connections()
	c.Dial = n.dial
	return c
}
