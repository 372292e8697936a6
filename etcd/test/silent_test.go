package test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	etcdlock "github.com/relock-go/relock/etcd"
)

// A waiter does not depend on its watch only, whose connection may be dead
// without an error.
func TestSilentWatch(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), opts...)
		f.on("Watch", 0, silence)
		hold := lock(t, newLocker(t, c.client(t), opts...), "key")
		done := waiter(limited(t), l, "key")
		time.Sleep(300 * time.Millisecond)
		unlock(t, hold)
		unlocked := time.Now()
		r := await(t, done)
		require.NoError(t, r.err)
		require.Less(t, r.at.Sub(unlocked), 2*ttl+500*time.Millisecond)
		unlock(t, r.hold)
	})
}
