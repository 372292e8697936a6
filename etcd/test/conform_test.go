package test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/relocktest/conform"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		t.Parallel()
		conformance(t, 1, opts...)
	})
	t.Run("three members", func(t *testing.T) {
		t.Parallel()
		conformance(t, 3, etcdlock.WithFair())
	})
}

func conformance(t *testing.T, members int, opts ...etcdlock.Option) {
	t.Helper()
	c := newCluster(t, members, calm)
	admin, fair := c.client(t), isFair(opts)
	opts = append(opts, etcdlock.WithTTL(brief))
	b := conform.Backend{
		New:    func(t *testing.T) relock.Locker { return newLocker(t, c.client(t), opts...) },
		Lease:  brief,
		Fair:   fair,
		Fenced: true,
		Faulty: func(t *testing.T) relock.Locker { return newLocker(t, c.faulty(t, stormy(t)), opts...) },
		Break: func(t *testing.T, key string) {
			_, err := admin.Delete(limited(t), "relock/lock/"+key+"/", clientv3.WithPrefix())
			require.NoError(t, err)
		},
		Left: func(t *testing.T, key string) []string { return keysOf(t, admin, key) },
	}
	if b.Fair {
		b.Waiting = func(t *testing.T, key string) int { return max(0, len(keysOf(t, admin, key))-1) }
	}
	conform.Run(t, b)
}

// stormy are faults that lose, delay and double one Txn in ten.
func stormy(t *testing.T) *faults {
	t.Helper()
	f := newFaults()
	f.random = func(method string) action {
		if method != "Txn" || rand.IntN(10) > 0 {
			return pass
		}
		return []action{refuse, dropAnswer, silence, delayForAWhile, double}[rand.IntN(5)]
	}
	t.Cleanup(f.late.Wait)
	return f
}

const aWhile = 300 * time.Millisecond
