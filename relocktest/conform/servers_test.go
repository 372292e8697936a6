package conform_test

import (
	"context"
	"net"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// oneServer starts a server.
func oneServer(t *testing.T) locktest.ConformServers {
	return locktest.ConformServers{Prefix: locktest.NewConformPrefix()}.At(redistest.Start(t))
}

// twoServers starts two servers. Each has some of the keys, and clients of both
// find out which.
func twoServers(t *testing.T, prefix string) locktest.ConformServers {
	s := locktest.ConformServers{Prefix: prefix, All: []*redistest.Server{redistest.Start(t), redistest.Start(t)}}
	p := locktest.NewTopology(false, s.All...)
	s.Of = p.Of
	s.Client = func(t *testing.T, opts ...relock.ClientOption) *relock.Client {
		return p.Client(t, append(opts, relock.WithKeyPrefix(s.Prefix))...)
	}
	s.Behind = func(t *testing.T, p locktest.ConformProxies, opts ...relock.ClientOption) *relock.Client {
		return s.Client(t, append(opts, relock.WithDialer(func(ctx context.Context, _, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, p[address].Network, p[address].Address)
		}))...)
	}
	return s
}
