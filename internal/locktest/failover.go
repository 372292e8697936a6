package locktest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// Replicate makes one server a replica of the other.
func Replicate(t testing.TB, replica, master *redistest.Server) {
	host, port, err := net.SplitHostPort(master.Address)
	require.NoError(t, err)
	replica.Do(t, "REPLICAOF", host, port)
}
