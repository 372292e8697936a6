package lease_test

import (
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// Readers that are let in together do not run the counter ahead of the clock:
// when it is lost, the next token is higher than those of 2,000 owners. The
// server gets all in one go, so that the clock has no time to catch up.
func TestTokensBeyondThoseOfManyReaders(t *testing.T) {
	t.Parallel()
	b := scripttest.NewQueue(t, redistest.Start(t))
	b.Do("SCRIPT", "LOAD", script.RWTry.Source)
	const readers = 2000
	tries := make([]script.Call, readers+1)
	for i := range tries {
		tries[i] = scripttest.RWWaitNamed(fmt.Sprint("c", i), 1, "su").Try()
		tries[i].Key = b.Key
	}
	for i, try := range tries {
		if i == readers {
			require.NoError(t, b.Conn.Send("FLUSHALL"))
		}
		r := scripttest.Fenced(try).ByDigest()
		require.NoError(t, b.Conn.Send(r.Cmd, r.Args...))
	}
	replies, err := redis.Values(b.Conn.Do(""))
	require.NoError(t, err)
	drawn := func(reply any) int64 {
		code, drawn := script.ReadGrant(reply)
		require.Equal(t, int64(script.Ours), code, reply)
		return drawn.Fence
	}
	next := drawn(replies[readers+1])
	for _, reply := range replies[:readers] {
		require.Greater(t, next, drawn(reply))
	}
}

// Inspect tells the last token that a holder can have: that of the hold, or the
// last of those that are set aside.
func TestInspectTellsTheHighestToken(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	for name, lock := range fencedKinds() {
		for mode, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
			h, err := lock(c, opts...).Acquire(t.Context())
			require.NoError(t, err)
			aside := int64(0)
			if name == "RedisLock" && mode == "unfair" {
				aside = locktest.LeaseOf(h).State().Aside
				require.Equal(t, int64(asideMost), aside)
			}
			require.Equal(t, h.Fence()+aside, locktest.Inspect(t, c, "fenced").Fence, "%s, %s", name, mode)
			require.NoError(t, h.Unlock(t.Context()))
		}
	}
}
