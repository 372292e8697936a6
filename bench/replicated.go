package main

import (
	"time"

	"github.com/relock-go/relock"
)

// replicated is 64 goroutines, each with its own key, on a server with one
// replica. Only the first library waits for the replica.
var replicated = scenario{
	name: "replicated", libraries: []string{oursReplicated, ours}, servers: withReplica,
	load: load{
		Work: "count", Processes: 1, Goroutines: 64, Ramp: 150 * time.Millisecond, Duration: 600 * time.Millisecond,
	},
	figures: countFigures,
}

func newRelockReplicated(address string, _ int) (library, error) {
	confirmed := func(key string, client *relock.Client) mutex {
		return relock.NewRedisLock(key, client, relock.WithReplicas(1, time.Second))
	}
	return relockWith(address, confirmed)
}
