package main

import "time"

// think is busy with a pause between two turns of a goroutine. It shows for how
// much of the time a goroutine has the lock.
var think = scenario{
	name: "think", libraries: withPeers(ours, oursFair),
	load: load{
		Work: "trace", Processes: 4, Goroutines: 4, OneKey: true,
		Hold: time.Millisecond, Think: 5 * time.Millisecond, Duration: 1500 * time.Millisecond,
	},
	figures: grantFigures,
}
