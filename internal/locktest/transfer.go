package locktest

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// ReentrantUnfair is the mode of an unfair reentrant lock.
var ReentrantUnfair = QueueMode{"ReentrantLock", false}

// NewTransferBenchBehind is a bench whose first client is behind a proxy, and
// whose server knows the scripts.
func NewTransferBenchBehind(t testing.TB, opts ...relock.ClientOption) (*QueueBench, *faults.Proxy) {
	s := WithScripts(t, redistest.Start(t))
	proxy := faults.Start(t, s.Network, s.Address)
	c := NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, opts...)
	q := &QueueBench{TB: t, QueueMode: ReentrantUnfair, Server: s, Clients: []*relock.Client{c, Sibling(t, s, c)}, Key: KeyOf(c, QueueKey)}
	return q, proxy
}

// HoldOf is the id of a reentrant hold.
func HoldOf(h relock.Hold) string { return LeaseOf(h).Protocol().HoldID() }
