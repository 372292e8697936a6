package locktest

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// ClusterClient returns a client of a Cluster, with a new prefix. It is closed
// when the test ends.
func ClusterClient(t testing.TB, s *redistest.Cluster, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return CloseLater(t)(relock.NewClientCluster(s.Addresses(), "", apart(opts)...))
}

// NewClusterBench returns a bench on the master of a slot of a Cluster.
func NewClusterBench(
	t testing.TB, c *redistest.Cluster, m QueueMode, clients int, opts ...relock.ClientOption,
) *QueueBench {
	t.Helper()
	q := &QueueBench{TB: t, QueueMode: m}
	opts = append(opts, relock.WithKeyPrefix(newPrefix()))
	for range clients {
		q.Clients = append(q.Clients, ClusterClient(t, c, opts...))
	}
	q.Key = KeyOf(q.Clients[0], QueueKey)
	q.Server = c.MasterOf(t, q.Key)
	return q
}
