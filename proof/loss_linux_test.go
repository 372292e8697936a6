package proof

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
)

// lossFaults end holds, one each in turn, from a random moment on:
//
// - 0: its requests are lost,
// - 1: its renewals are executed, and their answers are lost,
// - 2: the answer to the last renewal is late, and later requests are lost,
// - 3: the answer to the acquire is late, and later requests are lost.
var lossFaults = [8]int{0, 1, 2, 3, 2, 2, 2, 2}

func lossFault(i int) int { return lossFaults[i%len(lossFaults)] }

func lossKind(i int) string { return kindsOfLocks[i/len(lossFaults)%2] }

// asksErr reports whether Err is called for the i-th hold. It is called for
// every other hold, of each kind under each fault, since it cancels the context
// itself after the lease.
func asksErr(i int) bool { return (i+i/(2*len(lossFaults)))%2 == 0 }

// loser is a process whose holds are lost.
type loser struct {
	lease    time.Duration
	count    int
	spinners int
}

type loserRun struct {
	*testing.T
	loser
	server *redistest.Server
	proxy  *faults.Proxy
	late   []<-chan struct{} // closed when the answer to a last renewal was held back and has come
	came   int               // how many of those
}

// lossDrift is how much sooner than its key a hold is documented to end.
func lossDrift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// breakConnections sets up the faults. Releases are always lost, so that each
// key has to expire.
func (r *loserRun) breakConnections(digests map[string]string, random *rand.Rand) {
	renewal := eitherMatches(faults.Script(digests["renew"]), faults.Script(digests["reentrant_renew"]))
	release := eitherMatches(faults.Script(digests["release"]), faults.Script(digests["reentrant_release"]))
	for i := range r.count {
		held := ofKey(lossKey(i))
		moment := time.Duration(random.Int64N(int64(r.lease)))
		late := faults.Delay(r.lease / 10) // much more than the drift, and less than a command may take
		if lossFault(i) == 3 {
			moment = 0
			r.proxy.On(held, 1, late)
		}
		r.proxy.On(bothMatch(held, release), faults.Every, faults.DropRequest)
		broken := afterMoment(held, moment)
		switch lossFault(i) {
		case 1:
			r.proxy.On(bothMatch(broken, renewal), faults.Every, faults.DropAnswer)
		case 2:
			r.late = append(r.late, r.proxy.On(bothMatch(broken, renewal), 1, late))
		}
		r.proxy.On(broken, faults.Every, faults.DropRequest)
	}
}

// afterMoment matches after d from the first request, which it does not match.
func afterMoment(match faults.Match, d time.Duration) faults.Match {
	var first time.Time
	return func(args []string) bool {
		if !match(args) {
			return false
		}
		if first.IsZero() {
			first = time.Now()
			return false
		}
		return time.Since(first) >= d
	}
}

func bothMatch(a, b faults.Match) faults.Match {
	return func(args []string) bool { return a(args) && b(args) }
}

func eitherMatches(a, b faults.Match) faults.Match {
	return func(args []string) bool { return a(args) || b(args) }
}

// ends polls the keys at the server until all have expired, and returns the
// ends of their leases by the clock of faults.Now. The server gives them in
// milliseconds by its wall clock, which is this machine's. It is checked that
// the keys expire then, and not sooner.
func (r *loserRun) ends() []int64 {
	r.Helper()
	conn := r.server.Dial(r)
	defer conn.Close() //nolint:errcheck // the test is over
	ends, sooner, later := make([]int64, r.count), int64(0), int64(0)
	left := make([]int, r.count)
	for i := range left {
		left[i] = i
	}
	for limit := time.Now().Add(patience); len(left) > 0; time.Sleep(time.Millisecond) {
		require.True(r, time.Now().Before(limit), "keys that were not taken, or do not end: %v", left)
		sent := faults.Now()
		wall := time.Now().UnixNano() - sent
		answers := expiries(r, conn, left)
		got := faults.Now()
		var still []int
		for n, i := range left {
			switch {
			case answers[n] >= 0:
				still = append(still, i)
				ends[i] = answers[n]*int64(time.Millisecond) - wall
				later = max(later, sent-ends[i])
			case ends[i] == 0: // not locked yet
				still = append(still, i)
			default:
				sooner = max(sooner, ends[i]-got)
			}
		}
		left = still
	}
	r.Logf("keys were seen up to %s after the end that the server had reported, and missing up to %s before it",
		millis(later), millis(sooner))
	require.Less(r, sooner, int64(2*time.Millisecond), "a key was deleted")
	return ends
}

// expiries returns the ends of several keys, or -2 for a missing one.
func expiries(tb testing.TB, conn redis.Conn, keys []int) []int64 {
	tb.Helper()
	for _, i := range keys {
		require.NoError(tb, conn.Send("PEXPIRETIME", keyInRedis(lossKey(i))))
	}
	require.NoError(tb, conn.Flush())
	answers := make([]int64, len(keys))
	for n := range keys {
		var err error
		answers[n], err = redis.Int64(conn.Receive())
		require.NoError(tb, err)
	}
	return answers
}

// run loses the holds of one process.
func (r *loserRun) run(random *rand.Rand) []loss {
	r.Helper()
	digests := loadScripts(r, r.server)
	r.proxy = faults.Start(r, r.server.Network, r.server.Address)
	r.breakConnections(digests, random)
	child := faults.Spawn(r, "losers", r.proxy.Network, r.proxy.Address,
		strconv.FormatInt(r.lease.Milliseconds(), 10), strconv.Itoa(r.count), strconv.Itoa(r.spinners))
	ends := r.ends()
	child.Next("over", patience)
	losses := make([]loss, r.count)
	for i := range losses {
		losses[i] = loss{
			name: fmt.Sprintf("hold %d, fault %d, %d spinners", i, lossFault(i), r.spinners),
			gone: ends[i], starved: r.spinners > 0,
		}
	}
	r.read(child.Events(), losses)
	renewals := r.proxy.Count(eitherMatches(faults.Script(digests["renew"]), faults.Script(digests["reentrant_renew"])))
	for _, late := range r.late {
		select {
		case <-late:
			r.came++
		default:
		}
	}
	r.Logf("%d holds sent %d renewals; of %d the answer to the last one came late", r.count, renewals, r.came)
	require.Positive(r, renewals)
	if r.spinners == 0 {
		require.GreaterOrEqual(r, 4*r.came, 3*len(r.late), "the fault has not happened")
	}
	return losses
}

// read takes the ends of the holds from the events of their process, and then
// the timers that were late around them.
func (r *loserRun) read(events []faults.Event, losses []loss) {
	r.Helper()
	for _, e := range events {
		if e.Name != "context" && e.Name != "err" {
			continue
		}
		require.Equal(r, "true", e.Values[2], "the reason of hold %d's %s", e.Int(0), e.Name)
		if l := &losses[e.Int(0)]; e.Name == "context" {
			l.context = e.Int(1)
		} else {
			l.err = e.Int(1)
		}
	}
	for _, e := range events {
		for i := range losses {
			l := &losses[i]
			if e.Name == "late" && e.Int(0) < l.gone+timerPeriod.Nanoseconds() && e.Int(1) > l.gone-int64(200*time.Millisecond) {
				l.late = max(l.late, e.Int(1)-e.Int(0))
			}
		}
	}
}

// A hold whose messages are lost ends before its key can be granted to another.
// By Err this always holds, even in a starved process. By its context it holds
// as soon as timers fire and their goroutines run.
func TestLossComesBeforeTheKeyEnds(t *testing.T) {
	t.Parallel()
	random := newSeededRandom(t)
	lease := pick(3*time.Second, 2*time.Second)
	var losses []loss
	var late int
	if *long { // one after the other, as they disturb each other
		losses, late = loseTogether(t, random, []loser{{lease, 112, 0}, {lease, 112, 0}, {lease, 112, 0}})
		starved, more := loseTogether(t, random, []loser{{lease, 112, 200}})
		losses, late = append(losses, starved...), late+more
	} else {
		losses, late = loseTogether(t, random, []loser{{lease, 16, 0}, {lease, 8, 20}})
	}
	v := judgeLosses(losses, lossDrift(lease))
	t.Logf("lease %v, drift %v: %d runs, Err asked in %d; Err was over at least %s before the key went, "+
		"the context %s (%s in %d runs in which Err was not asked); in %d "+
		"runs timers in their process were late by up to %s: there it was %s; "+
		"%d were late where spinning goroutines starve the rest",
		lease, lossDrift(lease), v.runs, v.asked, millis(v.leastErr), millis(v.leastContext),
		millis(v.leastByTimer), v.byTimer, v.held, millis(v.mostLate), millis(v.leastHeld), v.starved)
	for _, text := range v.violations {
		t.Log(text)
	}
	require.Empty(t, v.violations)
	require.Equal(t, v.runs/2, v.asked)
	require.GreaterOrEqual(t, late, pick(200, 8), "the answer to the last renewal was not late often enough")
	require.GreaterOrEqual(t, v.byTimer, pick[int64](40, 0), "too few contexts ended by their timer alone, in time")
}

// loseTogether runs the processes at the same time. It returns of how many
// holds the answer to the last renewal was late.
func loseTogether(t *testing.T, random *rand.Rand, processes []loser) (losses []loss, late int) {
	t.Helper()
	runs, results := make([]*loserRun, len(processes)), make([][]loss, len(processes))
	for n, l := range processes {
		runs[n] = &loserRun{server: redistest.Start(t), loser: l}
	}
	t.Run("together", func(t *testing.T) {
		for n := range processes {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			t.Run(fmt.Sprintf("process %d", n), func(t *testing.T) {
				t.Parallel()
				runs[n].T = t
				results[n] = runs[n].run(own)
			})
		}
	})
	for _, r := range runs {
		late += r.came
	}
	return slices.Concat(results...), late
}
