package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// scenario is one load for all its libraries, and how to compute its figures.
type scenario struct {
	name      string
	libraries []string
	servers   func() (servers, error) // starts them; nil means one server
	load      load
	figures   func(outcome) (figures, error)
	waits     bool // nearly all of the time, so that runs do not slow each other

	// Of a load for task queues: how to run it.
	tasks func(taskRun) (figures, error)
	// Of a load that a program of another module makes: all runs of all
	// libraries.
	outside func(l load, runs int) (map[string][]figures, error)
	needs   []string // of both: the figures without which a run has failed
}

// scenarios lists all scenarios, in the order of the run.
var scenarios = []scenario{
	distinct1, distinct64, distinct256, distinct1024, encrypted1, encrypted64, nested, oneKey,
	busy, think, handOff, reentrantKey, quorum, replicated, shared64, permits, held, onEtcd,
}

// taskScenarios lists those for task queues.
var taskScenarios = []scenario{
	enqueue1, enqueue64, process1, process2, process10, process64,
	idleStart, delayed, killed, taskMemory, backlog, listing,
}

// outcome is the result of one run of a scenario with one library.
type outcome struct {
	load     load
	reports  []report      // one for each process
	commands int64         // that the server has run, including those inside scripts
	trip     time.Duration // of a PING on the quiet server
}

// figures are the results of a run, by name. A figure that the run could not
// measure is missing.
type figures map[string]float64

// add adds a figure, unless it was not measured.
func (f figures) add(name string, value float64) figures {
	if !math.IsNaN(value) {
		f[name] = value
	}
	return f
}

// of returns a figure, or NaN if it was not measured.
func (f figures) of(name string) float64 {
	if value, ok := f[name]; ok {
		return value
	}
	return math.NaN()
}

// check returns an error if a figure is missing or makes no sense. Every run
// must have the needed figures. The first of them is above 0 if anything was
// done.
func (f figures) check(needed ...string) error {
	for i, name := range needed {
		if value, ok := f[name]; !ok || i == 0 && value <= 0 {
			return fmt.Errorf("no %s", name)
		}
	}
	for name, value := range f {
		if value < 0 || math.IsInf(value, 0) {
			return fmt.Errorf("%s is %v", name, value)
		}
	}
	return nil
}

// measure runs a scenario once with a library, on fresh servers.
func (s scenario) measure(library string) (figures, error) {
	f, err := s.once(library)
	if err == nil {
		err = f.check(s.needed()...)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", s.name, library, err)
	}
	return f, nil
}

func (s scenario) once(library string) (figures, error) {
	if s.tasks != nil {
		return s.onTasks(library)
	}
	o, err := s.run(library)
	if err != nil {
		return nil, err
	}
	return s.figures(o)
}

func (s scenario) run(library string) (o outcome, err error) {
	start := s.servers
	if start == nil {
		start = independent(1)
	}
	srv, err := start()
	if err != nil {
		return o, err
	}
	defer srv.stop()
	if o.trip, err = srv.nodes[0].roundTrip(); err != nil {
		return o, err
	}
	before, err := srv.commands()
	if err != nil {
		return o, err
	}
	o.load = s.load
	o.load.Library, o.load.Address, o.load.Patience = library, srv.addresses(), cmp.Or(s.load.Patience, patience)
	if o.reports, err = run(o.load); err != nil {
		return o, err
	}
	after, err := srv.commands()
	o.commands = after - before
	return o, err
}

// needed returns the figures without which a run has failed. These are all but
// those of a hand-off, since a short run may have seen none.
func (s scenario) needed() []string {
	if s.needs != nil {
		return s.needs
	}
	switch s.load.Work {
	case "nest":
		return []string{outerPair, nestedPair, nestedShare, byPlain}
	case "trace":
		return []string{perSecond, waitP50, waitP99, waitMax, turns, evenness, inUse, perGrant, neverWoken}
	}
	return []string{perSecond, allocations, neverWoken, slowest}
}

// short returns the scenario for a brief run with few goroutines, to check that
// it runs.
func (s scenario) short() scenario {
	s.load.Ramp, s.load.Duration, s.load.Patience = 10*time.Millisecond, 100*time.Millisecond, 300*time.Millisecond
	s.load.Goroutines, s.load.Holds = min(s.load.Goroutines, 16), min(s.load.Holds, 1000)
	if s.tasks != nil {
		s.load.Brief, s.load.Patience, s.load.Tasks = true, 10*time.Second, min(s.load.Tasks, 20)
	}
	if s.name == killed.name {
		s.libraries = s.libraries[:1] // asynq takes a minute at least
	}
	return s
}

// withPeers returns a list of our own libraries and all others.
func withPeers(own ...string) []string { return slices.Concat(own, peers) }
