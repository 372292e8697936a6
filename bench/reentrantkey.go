package main

import "time"

// reentrantKey is the load of busy on reentrant locks. Goroutines of a process
// hand the key to each other, and so do processes.
var reentrantKey = scenario{
	name: "reentrant key", libraries: []string{oursReentrant, ours},
	load: load{
		Work: "trace", Processes: 4, Goroutines: 4, OneKey: true, Hold: time.Millisecond, Duration: 1500 * time.Millisecond,
	},
	figures: grantFigures,
}
