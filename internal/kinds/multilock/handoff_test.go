package multilock_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// handOffPair is two clients that want the same keys all the time.
type handOffPair struct {
	locks [2]*relock.MultiLock
	gaps  []time.Duration
}

func newHandOffPair(keys []string, first, second *relock.Client) *handOffPair {
	p := &handOffPair{}
	for i, client := range []*relock.Client{first, second} {
		p.locks[i] = relock.NewMultiLock(keys, client, relock.WithBlock())
	}
	return p
}

// use has each client take the keys n times, for 2 ms. A gap is the time from
// the call of Unlock in one to the return of Lock in the other, if that was
// called before.
func (p *handOffPair) use(tb testing.TB, n int) {
	var mu sync.Mutex // guards last and from, and p.gaps
	last, from := time.Time{}, -1
	var group sync.WaitGroup
	for i, l := range p.locks {
		group.Go(func() {
			for range n {
				asked := time.Now()
				if err := l.Lock(tb.Context()); err != nil {
					tb.Errorf("Lock: %v", err)
					return
				}
				got := time.Now()
				time.Sleep(2 * time.Millisecond)
				mu.Lock()
				if from == 1-i && asked.Before(last) {
					p.gaps = append(p.gaps, got.Sub(last))
				}
				last, from = time.Now(), i
				mu.Unlock()
				if err := l.Unlock(tb.Context()); err != nil {
					tb.Errorf("Unlock: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
}

func (p *handOffPair) percentile(n int) time.Duration {
	slices.Sort(p.gaps)
	return p.gaps[(len(p.gaps)-1)*n/100]
}

// handOffPairs returns two pairs that have connected: one has keys in three
// slots of a Cluster, and one has them on one server.
func handOffPairs(tb testing.TB) (slots, near *handOffPair) {
	c, s := redistest.StartCluster(tb, 3, 0), redistest.StartTCP(tb)
	one := locktest.ClusterClient(tb, c)
	single := locktest.NewTestClient(tb, s)
	slots = newHandOffPair(names(3), one, locktest.ClusterClient(tb, c, relock.WithKeyPrefix(locktest.Prefix(one))))
	near = newHandOffPair(names(3), single, locktest.NewTestClient(tb, s, relock.WithKeyPrefix(locktest.Prefix(single))))
	for _, p := range []*handOffPair{slots, near} {
		p.use(tb, 20)
		p.gaps = nil
	}
	return slots, near
}

// A MultiLock over three slots is handed off within twice the time that it
// takes on one server. They alternate, so that a busy machine delays both, and
// the calmer hand-offs of each count. BenchmarkMultiLockHandOff has the longest
// times, which such a machine decides.
func TestMultiLockHandOffOverSlots(t *testing.T) {
	slots, near := handOffPairs(t)
	for range 5 {
		slots.use(t, 80)
		near.use(t, 80)
	}
	of, by := slots.percentile(25), near.percentile(25)
	require.LessOrEqual(t, of, 2*by, "over slots, and on one server")
}

// BenchmarkMultiLockHandOff hands the same MultiLock between two clients: with
// keys in three slots of a Cluster, and on one server. The rounds alternate.
func BenchmarkMultiLockHandOff(b *testing.B) {
	slots, near := handOffPairs(b)
	for b.Loop() {
		slots.use(b, 50)
		near.use(b, 50)
	}
	require.NotEmpty(b, slots.gaps)
	require.NotEmpty(b, near.gaps)
	for name, n := range map[string]int{"p50": 50, "p99": 99} {
		b.ReportMetric(float64(slots.percentile(n).Microseconds()), "µs/slots-"+name)
		b.ReportMetric(float64(near.percentile(n).Microseconds()), "µs/server-"+name)
		b.ReportMetric(float64(slots.percentile(n))/float64(near.percentile(n)), "ratio-"+name)
	}
	b.ReportMetric(float64(len(slots.gaps))/float64(b.N), "gaps-slots")
	b.ReportMetric(float64(len(near.gaps))/float64(b.N), "gaps-server")
}
