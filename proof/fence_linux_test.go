package proof

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/fence"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
)

// fencedRole takes a lock, and then writes as asked, without checking its hold:
// "guarded" or "plain". Arguments: network, address, lease in ms.
func fencedRole(self *faults.Self) error {
	client, err := newProcessClient(self.Args[0], self.Args[1])
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the process ends
	lease, err := strconv.Atoi(self.Args[2])
	if err != nil {
		return err
	}
	lock := relock.NewRedisLock("fenced", client,
		relock.WithFencing(), relock.WithWatchdog(time.Duration(lease)*time.Millisecond))
	hold, err := lock.Acquire(context.Background())
	if err != nil {
		return err
	}
	self.Emit("held", hold.Fence())
	for command := range self.Commands {
		if command == "guarded" {
			err = fence.Set(context.Background(), client, command, "stale", hold.Fence(), 0)
		} else {
			_, err = client.Eval(context.Background(),
				relock.NewScript("return redis.call('SET', KEYS[1], 'stale')"), []string{command})
		}
		self.Emit("wrote", err == nil)
	}
	return nil
}

// A holder that was stopped beyond its lease writes late. Only a guard at the
// data can refuse the write. Without a guard it succeeds. The server's clock
// jumps over the lease.
func TestStaleWriteIsRefused(t *testing.T) {
	const lease = time.Minute
	server, clock := redistest.StartWithClock(t)
	stopped := faults.Spawn(t, "fenced", server.Network, server.Address, strconv.FormatInt(lease.Milliseconds(), 10))
	first := stopped.Next("held", patience)
	stopped.Stop()
	clock.Advance(t, 2*lease)
	client := newParentClient(t, server)
	hold, err := relock.NewRedisLock("fenced", client, relock.WithFencing(), relock.WithBlock()).Acquire(t.Context())
	require.NoError(t, err)
	require.Greater(t, hold.Fence(), first.Int(0))
	require.NoError(t, fence.Set(t.Context(), client, "guarded", "fresh", hold.Fence(), 0))
	server.Do(t, "SET", "plain", "fresh")
	require.NoError(t, hold.Unlock(t.Context()))

	stopped.Send("guarded")
	stopped.Send("plain")
	stopped.Continue()
	require.Equal(t, "false", stopped.Next("wrote", patience).Values[0])
	require.Equal(t, "true", stopped.Next("wrote", patience).Values[0])
	for key, want := range map[string]string{"guarded": "fresh", "plain": "stale"} {
		got, err := redis.String(server.Do(t, "GET", key), nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
