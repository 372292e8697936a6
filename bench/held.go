package main

import (
	"fmt"
	"time"
)

// held is one process that holds many locks, and renews them.
var held = scenario{
	name: "held", libraries: []string{ours},
	load: load{Holds: 100_000, Duration: heldLease}, outside: measureHeld,
	needs: []string{heapEach, moreGoroutines, processorShare, byBare},
}

const (
	heapEach       = "bytes a lock"
	moreGoroutines = "goroutines"
	processorShare = "share of a processor"
	byBare         = "renewals by bare redigo"

	heldLease = 12 * time.Second
)

// measureHeld fails if a lock was lost.
func measureHeld(l load, runs int) (map[string][]figures, error) {
	all := make([]figures, runs)
	for i := range all {
		f, err := keep(l)
		if err != nil {
			return nil, err
		}
		all[i] = f
	}
	return map[string][]figures{ours: all}, nil
}

func keep(l load) (figures, error) {
	srv, err := startServer()
	if err != nil {
		return nil, err
	}
	defer srv.stop()
	var kept struct {
		Lost, Goroutines int
		Heap             int64
		CPU, Held, Bare  time.Duration
	}
	err = program{"../proof", "./internal/keeper"}.run(&kept, "tcp", srv.address, fmt.Sprint(l.Holds),
		fmt.Sprint(heldLease.Milliseconds()), fmt.Sprint(l.Duration.Milliseconds()))
	if err == nil && kept.Lost > 0 {
		err = fmt.Errorf("%d of %d locks were lost", kept.Lost, l.Holds)
	}
	renewals := 3 * kept.Held.Seconds() / heldLease.Seconds() // of each lock
	return figures{}.
		add(heapEach, float64(kept.Heap)).
		add(moreGoroutines, float64(kept.Goroutines)).
		add(processorShare, kept.CPU.Seconds()/kept.Held.Seconds()).
		add(byBare, kept.CPU.Seconds()/(renewals*kept.Bare.Seconds())), err
}
