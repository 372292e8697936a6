package redistest

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// A slot moves with its keys: immediately, key by key, and not before it is
// finished. Servers redirect as they do in production.
func TestClusterMoves(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := StartCluster(t, 3, 1)
	t.Logf("up after %v", time.Since(began))
	require.Len(t, c.Addresses(), 6)
	require.Equal(t, c.Servers[:3], c.Masters(t))
	one, two, third := c.Servers[0], c.Servers[1], c.Servers[2]
	require.Equal(t, []*Server{c.Servers[3]}, c.Replicas(one))
	name := c.NameAt(t, one, "lock")
	key, slot := "relock:{"+name+"}", c.SlotOf(t, name)
	require.Equal(t, one, c.MasterOf(t, key))
	one.Do(t, "SET", key, 1)
	one.Do(t, "SET", key+":q", 1)

	c.MoveSlot(t, slot, two)
	require.Equal(t, two, c.Master(t, slot))
	require.EqualValues(t, 2, two.Do(t, "EXISTS", key, key+":q"))
	_, err := one.Try(t, "GET", key)
	require.ErrorContains(t, err, "MOVED")

	require.Equal(t, 2, c.MoveSlotSlowly(t, slot, third, time.Millisecond))
	move := c.BeginMove(t, slot, one)
	move.MoveKeys(t, key)
	require.Equal(t, []string{key + ":q"}, move.Left(t, 10))
	_, err = third.Try(t, "GET", key)
	require.ErrorContains(t, err, "ASK")
	_, err = third.Try(t, "EXISTS", key, key+":q")
	require.ErrorContains(t, err, "TRYAGAIN")
	move.Finish(t)
	require.EqualValues(t, 2, one.Do(t, "EXISTS", key, key+":q"))
}

// A slot that moves to and fro without a pause leaves servers that agree.
func TestClusterMovesToAndFro(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3, 0)
	for i := range 30 {
		c.MoveSlot(t, 0, c.Servers[(i+1)%3])
	}
	require.Equal(t, c.Servers[0], c.Master(t, 0))
}

// A master that is killed or paused is replaced, and comes back as a replica.
// What was not replicated is lost, and nothing else.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3, 1, "--cluster-node-timeout", "700")
	first := c.Servers[0]
	kept, lost := c.NameAt(t, first, "kept"), c.NameAt(t, first, "lost")
	conn := first.Dial(t)
	defer conn.Close() //nolint:errcheck // its server is killed
	_, err := conn.Do("SET", kept, 1)
	require.NoError(t, err)
	acks, err := redis.Int(conn.Do("WAIT", 1, 10_000))
	require.NoError(t, err)
	require.Equal(t, 1, acks)
	c.CutReplication(t, first)
	first.Do(t, "SET", lost, 1)
	began := time.Now()
	first.Kill(t)
	second := c.AwaitSuccessor(t, first)
	t.Logf("failover after %v", time.Since(began))
	require.Equal(t, c.Replicas(first)[0], second)
	c.RestoreReplication(t)
	require.EqualValues(t, 1, second.Do(t, "EXISTS", kept))
	require.EqualValues(t, 0, second.Do(t, "EXISTS", lost))
	require.Equal(t, second, c.Return(t, first))

	second.Pause(t)
	require.Equal(t, first, c.AwaitSuccessor(t, second))
	require.Equal(t, first, c.Return(t, second))
	require.Equal(t, first, c.MasterOf(t, kept))
	c.DoAll(t, "PING")
}

func TestLaunchTCP(t *testing.T) {
	t.Parallel()
	s, stop, err := LaunchTCP("--maxclients", "77")
	require.NoError(t, err)
	defer stop()
	require.Equal(t, []any{[]byte("maxclients"), []byte("77")}, s.Do(t, "CONFIG", "GET", "maxclients"))
	_, _, err = LaunchTCP("--no-such-option")
	require.Error(t, err)
}

func TestLaunchCluster(t *testing.T) {
	t.Parallel()
	address, stop, err := LaunchCluster()
	require.NoError(t, err)
	defer stop()
	s := &Server{Network: "tcp", Address: address}
	require.Equal(t, "OK", s.Do(t, "SET", "key", 1))
}
