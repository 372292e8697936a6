package multilock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// names returns n names of different slots.
func names(n int) []string { return locktest.Numbered("key", n) }

// together returns n names of one slot.
func together(n int) []string { return locktest.Numbered("one}key", n) }

// BenchmarkMultiLock times pairs of lock and unlock of one goroutine: of ten
// keys, and of one key beside them. The pairs alternate, so that a machine that
// slows down does so for both.
func BenchmarkMultiLock(b *testing.B) {
	cluster := locktest.ClusterClient(b, redistest.StartCluster(b, 3, 0))
	server := locktest.NewTestClient(b, redistest.StartTCP(b))
	for _, bb := range []struct {
		name   string
		client *relock.Client
		keys   []string
		opts   []relock.LockOption
	}{
		{"Cluster, ten slots", cluster, names(10), nil},
		{"Cluster, ten slots, fenced", cluster, names(10), []relock.LockOption{relock.WithFencing()}},
		{"Cluster, one slot", cluster, together(10), nil},
		{"one server", server, together(10), nil},
	} {
		b.Run(bb.name, func(b *testing.B) {
			one := relock.NewRedisLock(bb.keys[0], bb.client, bb.opts...)
			ten := relock.NewMultiLock(bb.keys, bb.client, bb.opts...)
			pair := func(l locktest.AnyLock) time.Duration {
				start := time.Now()
				require.NoError(b, l.Lock(b.Context()))
				require.NoError(b, l.Unlock(b.Context()))
				return time.Since(start)
			}
			var ones, tens time.Duration
			for range 100 { // connects, and the servers learn the scripts
				pair(one)
				pair(ten)
			}
			for b.Loop() {
				ones += pair(one)
				tens += pair(ten)
			}
			b.ReportMetric(float64(ones.Microseconds())/float64(b.N), "µs/key")
			b.ReportMetric(float64(tens.Microseconds())/float64(b.N), "µs/ten")
			b.ReportMetric(float64(tens)/float64(ones), "ten/key")
		})
	}
}
