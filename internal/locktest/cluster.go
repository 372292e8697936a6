package locktest

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// ClusterClient returns a client of a Cluster, with a new prefix. It is closed
// when the test ends.
func ClusterClient(t testing.TB, s *redistest.Cluster, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	opts = append([]relock.ClientOption{relock.WithKeyPrefix("test:" + uuid.NewString() + ":")}, opts...)
	c, err := relock.NewClientCluster(s.Addresses(), "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// NewClusterBench returns a bench on the master of a slot of a Cluster.
func NewClusterBench(t testing.TB, c *redistest.Cluster, m QueueMode, clients int, opts ...relock.ClientOption) *QueueBench {
	t.Helper()
	q := &QueueBench{TB: t, QueueMode: m}
	opts = append(opts, relock.WithKeyPrefix("test:"+uuid.NewString()+":"))
	for range clients {
		q.Clients = append(q.Clients, ClusterClient(t, c, opts...))
	}
	q.Key = KeyOf(q.Clients[0], QueueKey)
	q.Server = c.MasterOf(t, q.Key)
	return q
}
