package locktest

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// NewSeatBenchBehind is a bench whose one client is behind a proxy, and whose server knows the scripts.
func NewSeatBenchBehind(t testing.TB, opts ...relock.ClientOption) (*QueueBench, *faults.Proxy) {
	s := Taught(t, redistest.Start(t))
	proxy := faults.Start(t, s.Network, s.Address)
	behind := &redistest.Server{Network: proxy.Network, Address: proxy.Address}
	q := &QueueBench{TB: t, QueueMode: QueueMode{"RedisLock", false}, Server: s, Clients: []*relock.Client{NewTestClient(t, behind, opts...)}}
	q.Key = KeyOf(q.Clients[0], QueueKey)
	return q, proxy
}
