package proof

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// rivals is processes that take one lock again and again, see rivalRole.
type rivals struct {
	*testing.T
	kind       string
	goroutines int             // of a process
	proxies    []*faults.Proxy // one for each server
	watch      *testkit.Stopwatch
	crew       *faults.Crew
	fair       []bool // by place
}

// visit is a hold of a process, while it was valid.
type visit struct {
	locktest.Span
	reads  bool
	waited time.Duration
}

func newRivals(t *testing.T, kind string, processes, goroutines int) *rivals {
	t.Helper()
	r := &rivals{
		T: t, kind: kind, goroutines: goroutines, watch: testkit.NewStopwatch(t), fair: make([]bool, processes),
	}
	servers := 1
	if kind == red {
		servers = 3
	}
	for range servers {
		server := startOld(t, kind)
		r.proxies = append(r.proxies, faults.Start(t, server.Network, server.Address))
	}
	for i := range processes {
		r.fair[i] = i%2 == 0
	}
	r.crew = faults.StartCrew(t, processes, r.spawn)
	return r
}

// startOld starts a server. One of a RedLock has been up for long enough.
func startOld(t *testing.T, kind string) *redistest.Server {
	t.Helper()
	if kind != red {
		return redistest.Start(t)
	}
	server, clock := redistest.StartWithClock(t)
	clock.Advance(t, quorumUp*time.Second)
	server.AwaitUp(t, quorumUp)
	return server
}

func (r *rivals) spawn(place int) *faults.Child {
	r.Helper()
	arguments := []string{r.kind, strconv.FormatBool(r.fair[place]), strconv.Itoa(r.goroutines)}
	for _, p := range r.proxies {
		arguments = append(arguments, p.Network, p.Address)
	}
	return faults.Spawn(r, "rival", arguments...)
}

// awaitServed waits until each goroutine of each process has got the lock once
// more.
func (r *rivals) awaitServed() {
	r.Helper()
	var before [][]int
	for _, n := range r.crew.Running {
		before = append(before, r.grants(n))
	}
	for i, n := range r.crew.Running {
		testkit.Eventually(r, patience, func() bool {
			for g, now := range r.grants(n) {
				if now <= before[i][g] {
					return false
				}
			}
			return true
		}, "a waiter was not served")
	}
}

// grants returns how many grants each goroutine of a process has got.
func (r *rivals) grants(process int) []int {
	all := make([]int, r.goroutines)
	for _, e := range r.crew.All[process].Events() {
		if e.Name == "begin" {
			all[e.Int(0)]++
		}
	}
	return all
}

// finish ends the processes, and returns their holds.
func (r *rivals) finish() (all []visit) {
	r.Helper()
	return endAll(r, r.crew)
}

// heard returns how many holds know that they were ended by force.
func (r *rivals) heard() int { return r.crew.Count("forced") }

// endAll ends the processes, and returns their holds.
func endAll(tb testing.TB, crew *faults.Crew) (all []visit) {
	tb.Helper()
	crew.End(patience)
	for n, process := range crew.All {
		open := map[int64]visit{}
		for _, e := range process.Events() {
			if e.Name == "forced" {
				continue
			}
			v := open[e.Int(0)]
			v.Span = locktest.Span{From: e.Int(1), Until: e.Int(2)}
			if e.Name == "end" {
				delete(open, e.Int(0))
				all = append(all, v)
				continue
			}
			if len(e.Values) > 3 { // of a rival
				v.reads, v.waited = e.Values[3] == "true", time.Duration(e.Int(4))
			}
			open[e.Int(0)] = v
		}
		for _, v := range open {
			require.Contains(tb, crew.KilledAt, n, "a process that was not killed left a hold open")
			v.Until = min(v.Until, crew.KilledAt[n])
			all = append(all, v)
		}
	}
	return all
}

// tooMany returns the first hold that was valid beside more than its kind of
// lock allows, and those beside it.
func tooMany(kind string, visits []visit) []visit {
	visits = slices.Clone(visits)
	slices.SortFunc(visits, func(a, b visit) int { return int(a.From - b.From) })
	var valid []visit
	for _, v := range visits {
		if v.Until <= v.From {
			continue
		}
		valid = slices.DeleteFunc(valid, func(other visit) bool { return other.Until <= v.From })
		valid = append(valid, v)
		writes := slices.ContainsFunc(valid, func(other visit) bool { return !other.reads })
		if kind == permits && len(valid) > rivalPermits || kind != permits && writes && len(valid) > 1 {
			return valid
		}
	}
	return nil
}

// The checker finds holds that are valid together.
func TestTheCheckerFindsTooManyHolds(t *testing.T) {
	t.Parallel()
	at := func(reads bool, spans ...int64) (all []visit) {
		for i := 0; i < len(spans); i += 2 {
			all = append(all, visit{Span: locktest.Span{From: spans[i], Until: spans[i+1]}, reads: reads})
		}
		return all
	}
	require.Empty(t, tooMany(plain, at(false, 0, 10, 10, 20, 15, 15, 20, 30)))
	require.Len(t, tooMany(plain, at(false, 0, 10, 9, 20)), 2)
	require.Empty(t, tooMany(toWrite, append(at(true, 0, 10, 5, 20), at(false, 20, 30)...)))
	require.Len(t, tooMany(toWrite, append(at(true, 0, 10, 5, 20), at(false, 19, 30)...)), 2)
	require.Empty(t, tooMany(permits, at(false, 0, 10, 5, 20, 9, 11, 10, 15)))
	require.Len(t, tooMany(permits, at(false, 0, 10, 5, 20, 9, 11, 9, 15)), 4)
}
