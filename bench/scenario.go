package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// scenario is one load for all its libraries, and the figures that come of it.
type scenario struct {
	name      string
	libraries []string
	nodes     int // servers; 0 is one
	replicas  int // of the first server
	load      load
	figures   func(outcome) (figures, error)
}

// scenarios are all, in the order of the run.
var scenarios = []scenario{distinct1, distinct64, distinct256, distinct1024, nested, oneKey, busy, think, handOff, reentrantKey, quorum, replicated}

// outcome is what one run of a scenario with one library came to.
type outcome struct {
	load     load
	reports  []report      // one for each process
	commands int64         // that the server has run, those inside scripts included
	trip     time.Duration // of a PING on the quiet server
}

// figures are what a run comes to, by name. A figure that the run could not see is missing.
type figures map[string]float64

// add leaves out what was not seen.
func (f figures) add(name string, value float64) figures {
	if !math.IsNaN(value) {
		f[name] = value
	}
	return f
}

// check reports a figure that is missing or makes no sense. needed are those that every run has to see; the first one is above 0 where
// anything was done.
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
	o, err := s.run(library)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", s.name, library, err)
	}
	f, err := s.figures(o)
	if err == nil {
		err = f.check(s.needed()...)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", s.name, library, err)
	}
	return f, nil
}

func (s scenario) run(library string) (o outcome, err error) {
	srv, err := startServers(s.nodes, s.replicas)
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

// needed are the figures without which a run has failed: all but those of a hand-off, of which a short run may have seen none.
func (s scenario) needed() []string {
	switch s.load.Work {
	case "nest":
		return []string{outerPair, nestedPair, nestedShare}
	case "trace":
		return []string{perSecond, waitP50, waitP99, waitMax, turns, evenness, inUse, perGrant, neverWoken}
	}
	return []string{perSecond, allocations, neverWoken, slowest}
}

// short is the scenario for a moment and with few goroutines, to see that it runs.
func (s scenario) short() scenario {
	s.load.Ramp, s.load.Duration, s.load.Patience = 10*time.Millisecond, 100*time.Millisecond, 300*time.Millisecond
	s.load.Goroutines = min(s.load.Goroutines, 16)
	return s
}

// withPeers is a list of our own libraries and all others.
func withPeers(own ...string) []string { return slices.Concat(own, peers) }
