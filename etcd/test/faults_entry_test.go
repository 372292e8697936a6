package test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A fair waiter that cannot read which key precedes its own ends with its
// Locker and with its lease.
func TestWaiterThatCannotPollEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	ends := map[string]struct {
		end func(f *faults, l *etcdlock.Locker) error
		why error
	}{
		"Close": {func(_ *faults, l *etcdlock.Locker) error { return l.Close() }, relock.ErrClosed},
		"lease": {
			func(f *faults, _ *etcdlock.Locker) error { f.on("LeaseKeepAlive", 0, silence); return nil }, etcdlock.ErrPlaceLost,
		},
	}
	for name, tt := range ends {
		t.Run(name, func(t *testing.T) {
			f := newFaults()
			l := newLocker(t, c.faulty(t, f), etcdlock.WithFair(), etcdlock.WithTTL(brief))
			f.on("Txn", 1, dropAnswer)
			f.random = func(method string) action { // the fourth one reports that the first has created the key
				if method == "Txn" && f.seen[method] > 4 {
					return refuse
				}
				return pass
			}
			done := waiter(limited(t), l, "key")
			soon(t, "it polls in vain", func() bool { return f.count("Txn") > 5 })
			s, ended := testkit.NewStopwatch(t), time.Now()
			require.NoError(t, tt.end(f, l))
			r := await(t, done)
			require.ErrorIs(t, r.err, tt.why)
			s.Check(r.at.Sub(ended), brief)
		})
	}
}
