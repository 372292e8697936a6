package main

import "time"

// oneKey is one process with many goroutines that want the same key. They
// release it immediately.
var oneKey = scenario{
	name: "one key", libraries: append(withPeers(ours, oursAnew, oursFair), redsyncAnew),
	load: load{
		Work: "count", Processes: 1, Goroutines: 256, OneKey: true, Ramp: 200 * time.Millisecond, Duration: time.Second,
	},
	figures: countFigures,
}
