package test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A waiter does not depend on its watch only, whose connection may be dead
// without an error.
func TestSilentWatch(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		const few = 3 * time.Second
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(few))...)
		f.on("Watch", 0, silence)
		hold := lock(t, newLocker(t, c.client(t), opts...), "key")
		done := waiter(limited(t), l, "key")
		time.Sleep(300 * time.Millisecond)
		unlock(t, hold)
		s, unlocked := testkit.NewStopwatch(t), time.Now()
		r := await(t, done)
		require.NoError(t, r.err)
		s.Check(r.at.Sub(unlocked), 2*few)
		unlock(t, r.hold)
	})
}
