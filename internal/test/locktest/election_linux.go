package locktest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Candidate is a process that campaigns, and how the test cuts it off from the
// server. See [Campaign].
type Candidate struct {
	*faults.Child
	Cut, Mend func()
}

// Election has three processes that campaign. It ends the term of each leader
// in one of five ways, and puts another process in its place.
type Election struct {
	*testing.T
	Lease time.Duration
	Spawn func() *Candidate
	Force func() // ends the hold at the server, as an operator does

	all    []*Candidate // the ones that have ended included
	alive  map[*Candidate]bool
	killed map[*Candidate]int64
	forced []int64 // when the test began to end a hold
	took   map[string][]time.Duration
}

// ending is a way in which a term ends.
type ending struct {
	end    func(leader *Candidate)
	resume func(leader *Candidate) // once another process leads
	within time.Duration           // in which another process leads
}

// handOff is the time in which another process leads after a leader that ends.
const handOff = 1200 * time.Millisecond

// Hold ends n terms, and checks the election.
func (e *Election) Hold(n int) {
	e.Helper()
	e.alive, e.killed, e.took = map[*Candidate]bool{}, map[*Candidate]int64{}, map[string][]time.Duration{}
	for range 3 {
		e.start()
	}
	endings := e.endings()
	names := slices.Sorted(maps.Keys(endings))
	for i := range n {
		name := names[i%len(names)]
		e.next(name, endings[name])
	}
	for c := range e.alive {
		c.End(testkit.Patience)
	}
	e.judge(n)
}

func (e *Election) endings() map[string]ending {
	nothing := func(*Candidate) {}
	soon := e.Lease + time.Second
	return map[string]ending{
		"end":  {e.stop, nothing, handOff},
		"kill": {e.kill, nothing, soon},
		"halt": {func(c *Candidate) { c.Stop() }, func(c *Candidate) { c.Continue(); e.stop(c) }, soon},
		"cut":  {func(c *Candidate) { c.Cut() }, func(c *Candidate) { c.Mend(); e.stop(c) }, soon},
		"force": {func(*Candidate) {
			e.forced = append(e.forced, faults.Now())
			e.Force()
		}, e.stop, soon},
	}
}

func (e *Election) start() {
	e.Helper()
	c := e.Spawn()
	c.Next("campaigns", testkit.Patience)
	e.all = append(e.all, c)
	e.alive[c] = true
}

// stop ends a process, which ends its Run without an error.
func (e *Election) stop(c *Candidate) {
	e.Helper()
	delete(e.alive, c)
	c.End(testkit.Patience)
}

func (e *Election) kill(c *Candidate) {
	delete(e.alive, c)
	c.Kill()
	e.killed[c] = faults.Now()
}

// next ends a term, waits for the next one, and replaces the process.
func (e *Election) next(name string, how ending) {
	e.Helper()
	last := e.newest(func(t term) bool { return t.open })
	waits := e.waits(last.of)
	watch, at := testkit.NewStopwatch(e), faults.Now()
	how.end(last.of)
	following := e.newest(func(t term) bool { return t.from > last.from })
	took := time.Duration(following.from - at)
	if waits {
		e.took[name] = append(e.took[name], took)
		watch.Check(took, how.within, "%s: no other process leads in time", name)
	}
	watch.Net() // stops it
	how.resume(last.of)
	e.start()
}

// waits reports whether a process other than the leader waits. One that has led
// may pause: it has lost its hold without the test's help, on a busy machine.
func (e *Election) waits(leader *Candidate) bool {
	for c := range e.alive {
		if c != leader && len(termsOf(c)) == 0 {
			return true
		}
	}
	return false
}
