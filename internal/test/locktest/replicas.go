package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Replicated is a master and its replica.
type Replicated struct {
	testing.TB
	Master, Replica *redistest.Server
}

// NewReplicated starts a master and its replica.
func NewReplicated(t testing.TB) *Replicated {
	r := &Replicated{
		TB: t, Master: redistest.StartTCP(t, "--repl-diskless-sync-delay", "0"), Replica: redistest.StartTCP(t),
	}
	r.Connect()
	return r
}

// Disconnect ends the replication. The replica keeps what it has.
func (r *Replicated) Disconnect() { r.Replica.Do(r, "REPLICAOF", "NO", "ONE") }

// Connect begins the replication, and waits until the replica confirms what the
// master writes.
func (r *Replicated) Connect() {
	r.Replica.Follow(r, r.Master)
	for range 2 { // the first may have come with the copy of all data; what follows it begins up to a second later
		r.AwaitCopy()
	}
}

// AwaitCopy waits until the replica has what the master has.
func (r *Replicated) AwaitCopy() {
	conn := r.Master.Dial(r)
	defer conn.Close() //nolint:errcheck // nothing is pending
	testkit.Eventually(r, testkit.Patience, func() bool {
		_, err := conn.Do("SET", "probe", 1, "PX", 60_000)
		require.NoError(r, err)
		acks, err := conn.Do("WAIT", 1, 5000)
		require.NoError(r, err)
		return acks == int64(1)
	}, "the replica has no link")
}

// FailOver makes the replica the master.
func (r *Replicated) FailOver() {
	r.Master.Kill(r)
	r.Replica.Do(r, "REPLICAOF", "NO", "ONE")
}

// OneReplica waits for one replica.
var OneReplica = relock.WithReplicas(1, time.Second)
