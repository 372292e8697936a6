package locktest

import (
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// FailoverLoad is goroutines of several clients that take two locks again and
// again, one fair and one not, while their master fails.
type FailoverLoad struct {
	*Load
	set      FailingSet
	locks    [2]string // the unfair and the fair one
	replicas int       // that have each lock

	// The first grant in each failover: after the first write that a replica
	// accepted, after one that as many other replicas had, and after another
	// master was named. Report sorts them.
	afterWrite, AfterCopy, AfterNamed []time.Duration
	// The first grant of the lock that was granted later, after the copied
	// write.
	BothAfterCopy []time.Duration
}

// NewFailoverLoad starts the goroutines, which newClient gives three clients
// with the same prefix. Both locks must have the same master, and wait for so
// many replicas. Every goroutine has had its lock when it returns.
func NewFailoverLoad(
	t testing.TB, set FailingSet, locks [2]string,
	newClient func() *relock.Client, replicas int, opts ...relock.LockOption,
) *FailoverLoad {
	t.Helper()
	opts = append([]relock.LockOption{relock.WithBlock(), relock.WithWatchdog(3 * time.Second)}, opts...)
	if replicas > 0 {
		opts = append(opts, relock.WithReplicas(replicas, 500*time.Millisecond))
	}
	fair := append(slices.Clone(opts), relock.WithFair())
	var clients []*relock.Client
	for range 3 {
		clients = append(clients, newClient())
	}
	l := &FailoverLoad{Load: NewLoad(t), set: set, locks: locks, replicas: replicas}
	for _, c := range clients {
		for range 2 {
			l.Begin(locks[0], false, relock.NewRedisLock(locks[0], c, opts...).Acquire)
			l.Begin(locks[1], false, relock.NewReentrantLock(locks[1], c, fair...).Acquire)
		}
	}
	l.AwaitAll()
	return l
}

// FailOver ends the master, and waits until each goroutine was served by the
// new one, and the set is whole again. A lock that waits for all replicas is
// not granted before that.
func (l *FailoverLoad) FailOver(end func(*redistest.Server, testing.TB)) {
	l.Helper()
	old := l.set.MasterOf(l, l.locks[0])
	end(old, l)
	next, written := l.firstWrite(old)
	l.set.RestoreReplication(l)
	var copied time.Time
	copies := testkit.Async(l, func() (err error) {
		copied, err = l.firstCopy(next)
		return err
	})
	named := l.firstNamed(old)
	if l.replicas == len(l.set.Replicas(old)) {
		l.set.Return(l, old)
	}
	first := written.Add(l.AwaitGrants("", written, 1))
	both := written.Add(max(l.AwaitGrants(l.locks[0], written, 1), l.AwaitGrants(l.locks[1], written, 1)))
	require.NoError(l, testkit.ResultWithin(l, copies, testkit.Patience))
	since := func(at time.Time) time.Duration { return max(0, first.Sub(at)).Round(time.Millisecond) }
	l.BothAfterCopy = append(l.BothAfterCopy, max(0, both.Sub(copied)).Round(time.Millisecond))
	l.afterWrite = append(l.afterWrite, since(written))
	l.AfterCopy = append(l.AfterCopy, since(copied))
	l.AfterNamed = append(l.AfterNamed, since(named))
	l.AwaitAll()
	l.set.Return(l, old)
	l.AwaitAll()
}

// firstWrite returns the replica that first accepted a write, and when.
func (l *FailoverLoad) firstWrite(old *redistest.Server) (next *redistest.Server, at time.Time) {
	l.Helper()
	next = AwaitPromotion(l, l.set, old, l.probe())
	return next, time.Now()
}

// probe is a key at the server of the locks.
func (l *FailoverLoad) probe() string { return "probe:{" + l.locks[0] + "}" }

// firstCopy returns when a write at the new master was first confirmed by the
// replicas of the locks. Before, none of them can be granted.
func (l *FailoverLoad) firstCopy(next *redistest.Server) (time.Time, error) {
	conn, err := redis.Dial(next.Network, next.Address)
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Close() //nolint:errcheck // the commands' errors count
	for {
		if _, err = conn.Do("SET", l.probe(), 1); err != nil {
			return time.Time{}, err
		}
		if n, err := redis.Int(conn.Do("WAIT", l.replicas, 20)); err != nil || n >= l.replicas {
			return time.Now(), err
		}
	}
}

// firstNamed returns when another master was first named.
func (l *FailoverLoad) firstNamed(old *redistest.Server) time.Time {
	l.Helper()
	testkit.Eventually(l, time.Minute, func() bool { return l.set.Replaced(l, old) }, "no other master is named")
	return time.Now()
}

// RequireNoOverlap is that of the load. It logs the figures, too.
func (l *FailoverLoad) RequireNoOverlap() {
	l.Helper()
	l.Report()
	l.Load.RequireNoOverlap()
}

// Report logs the figures. The goroutines must have stopped.
func (l *FailoverLoad) Report() {
	l.Helper()
	for _, times := range [][]time.Duration{l.afterWrite, l.AfterCopy, l.AfterNamed, l.BothAfterCopy} {
		slices.Sort(times)
	}
	pairs, sum := l.overlaps()
	l.Logf("%d failovers, %d holds, %d overlaps of %v; first grant after the first accepted write %v, "+
		"after the first copied write %v (of both locks %v), after another master was named %v",
		len(l.afterWrite), l.Holds(), pairs, sum, l.afterWrite, l.AfterCopy, l.BothAfterCopy, l.AfterNamed)
}

// overlaps returns how many pairs of holds were valid together, and for how
// long in sum.
func (l *FailoverLoad) overlaps() (pairs int, sum time.Duration) {
	for _, visits := range l.visits {
		for _, two := range Overlaps(visits, func(v Visit) Span { return v.Span }) {
			pairs++
			sum += time.Duration(min(two[0].Until, two[1].Until) - two[1].From)
		}
	}
	return pairs, sum.Round(time.Millisecond)
}
