package proof

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const (
	stopFor   = 400 * time.Millisecond // twice the lease
	stopEvery = time.Second
)

// contest is a register that processes increment under one lock.
type contest struct {
	*testing.T
	server *redistest.Server
	kind   string
	path   string
	shared *register
	began  time.Time
	crew   *faults.Crew // the number in All is the process in the sections
	halts  []halt
}

func newContest(t *testing.T, kind string) *contest {
	c := &contest{T: t, server: redistest.Start(t), kind: kind, began: time.Now()}
	c.path, c.shared = newShared[register](t)
	c.crew = faults.StartCrew(t, competing, func(int) *faults.Child {
		return faults.Spawn(c, "contender", c.server.Network, c.server.Address, c.kind, c.path)
	})
	return c
}

// stop stops one of the processes for a while. The stop counts from the signal,
// since it is unknown when the process obeys it.
func (c *contest) stop(i int) {
	c.Helper()
	from := faults.Now()
	c.crew.Halt(i, stopFor)
	c.halts = append(c.halts, halt{c.crew.Running[i], from, faults.Now()})
}

// restart ends or kills one of the processes, and starts another in its place.
func (c *contest) restart(i int, kill bool) {
	c.Helper()
	if kill {
		c.crew.Kill(i)
	} else {
		c.crew.Replace(i, patience)
	}
}

// progress waits until the register has grown by n.
func (c *contest) progress(n int64) {
	c.Helper()
	goal := c.shared.read() + n
	testkit.Eventually(c, patience, func() bool { return c.shared.read() >= goal }, "progress")
}

// finish ends all processes, judges, and prints the counts.
func (c *contest) finish() *verdict {
	c.Helper()
	c.crew.End(patience)
	var sections []section
	for n, process := range c.crew.All {
		sections = append(sections, c.sectionsOf(n, process.Events())...)
	}
	v := judgeSections(sections, c.halts, c.shared.read())
	c.Logf("%s: %d sections, %d increments, %d stops, %d restarts (%d by kill -9); stale writes: %d inside a stop, "+
		"%d after a stall, "+
		"%d overrun by them, %d updates lost; writes of killed processes: %d; violations: %d; %v",
		c.kind, len(sections), v.increments, len(c.halts), len(c.crew.All)-competing, len(c.crew.KilledAt), v.stopped,
		v.stalled,
		v.overrun, v.lost, v.unknown, len(v.violations), time.Since(c.began).Round(time.Millisecond))
	return v
}

// sectionsOf reads the reports of a process: one when it starts to write, and
// one with all times at the end of the section.
func (c *contest) sectionsOf(process int, events []faults.Event) []section {
	c.Helper()
	var sections []section
	open := map[int64]*section{}
	for _, e := range events {
		goroutine := e.Int(0)
		switch e.Name {
		case "write":
			open[goroutine] = &section{
				process: process, goroutine: int(goroutine), from: e.Int(1), until: e.Int(2), read: e.Int(3), tried: true,
			}
		case "end":
			delete(open, goroutine)
			done := e.Values[1] == "true"
			sections = append(sections, section{
				process: process, goroutine: int(goroutine), done: done, tried: done,
				from: e.Int(2), until: e.Int(3), valid: e.Int(4), checked: e.Int(5), wrote: e.Int(6), read: e.Int(7),
				before: e.Int(8),
			})
		}
	}
	if len(open) > 0 {
		require.Contains(c, c.crew.KilledAt, process, "a process that was not killed left a section open")
	}
	for _, s := range open {
		s.ends(c.crew.KilledAt[process])
		sections = append(sections, *s)
	}
	return sections
}

// show prints the first violations.
func (v *verdict) show(t *testing.T) {
	t.Helper()
	for _, text := range v.violations[:min(len(v.violations), 10)] {
		t.Log(text)
	}
}

// Processes that increment a number under a lock only lose an update if a
// process is stopped between Err and the write. No two holds are valid
// together.
func TestExclusionWhileProcessesAreStopped(t *testing.T) {
	t.Parallel()
	increments, stops := pick[int64](20_000, 600), pick(20, 3)
	for _, kind := range kindsOfLocks {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newContest(t, kind)
			for n := 0; n < stops || c.shared.read() < increments; n++ {
				time.Sleep(stopEvery - stopFor)
				c.stop(n % competing)
			}
			v := c.finish()
			v.show(t)
			require.Empty(t, v.violations)
			require.LessOrEqual(t, v.stalled, v.mostStalled())
			require.GreaterOrEqual(t, int64(v.increments), increments)
		})
	}
}

// Processes that are killed or ended during their work, and restarted, lose no
// update either.
func TestExclusionWhileProcessesAreRestarted(t *testing.T) {
	t.Parallel()
	random := newSeededRandom(t)
	restarts := pick(20, 3) // of each process
	for _, kind := range kindsOfLocks {
		kills := make([]bool, restarts*competing)
		for i := range kills {
			kills[i] = random.IntN(3) > 0
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newContest(t, kind)
			for n, kill := range kills {
				c.progress(pick[int64](250, 5))
				c.restart(n%competing, kill)
			}
			c.progress(10)
			v := c.finish()
			v.show(t)
			require.Empty(t, v.violations)
			require.LessOrEqual(t, v.stalled, v.mostStalled())
			require.Len(t, c.crew.All, competing*(1+restarts))
			require.GreaterOrEqual(t, v.increments+v.unknown, pick(20_000, 60))
		})
	}
}

// Where the lock is none, the same run shows it: the tests above can fail.
func TestExclusionWithoutALockIsViolated(t *testing.T) {
	t.Parallel()
	c := newContest(t, noLock)
	c.progress(pick[int64](2000, 200))
	v := c.finish()
	overlaps := slices.IndexFunc(v.violations, func(s string) bool { return strings.HasPrefix(s, "two holders") })
	losses := slices.IndexFunc(v.violations, func(s string) bool { return strings.HasPrefix(s, "an update was lost") })
	require.GreaterOrEqual(t, overlaps, 0, "holders together")
	require.GreaterOrEqual(t, losses, 0, "lost updates")
	t.Logf("%d violations, as it should be; the first: %s; %s",
		len(v.violations), v.violations[overlaps], v.violations[losses])
}
