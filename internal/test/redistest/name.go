package redistest

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// NoFailover is how long a machine may stall without a failover.
const NoFailover = 20 * time.Second

// A name that no resolver knows, and a port of it.
const (
	SeedHost = "seed.test"
	SeedName = SeedHost + ":1"
)

// NamedServer is where the name of a seed leads. At the addresses in Moved is
// nothing.
type NamedServer struct {
	To    atomic.Pointer[Server]
	Moved []string
}

// Dial connects as the system does, if it resolved the name.
func (n *NamedServer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
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
