package main

import "time"

// handOff is two processes that want the key all the time. It measures from the
// call of Unlock in one to the return of Lock in the other.
var handOff = scenario{
	name: "hand-off", libraries: withPeers(ours, oursFair),
	load: load{
		Work: "trace", Processes: 2, Goroutines: 1, OneKey: true,
		Hold: 2 * time.Millisecond, Duration: 1500 * time.Millisecond,
	},
	figures: grantFigures,
}
