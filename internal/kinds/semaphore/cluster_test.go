package semaphore_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// On a Cluster a semaphore follows its slot, with its holders and its waiters.
func TestSemaphoreOfASlotThatMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "20000")
	for mode, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
		prefix := relock.WithKeyPrefix("test:" + uuid.NewString() + ":")
		newClient := func() *relock.Client { return locktest.ClusterClient(t, c, prefix) }
		locktest.PermitsWhileASlotMoves(t, c, "permits "+mode, newClient, opts...)
	}
}
