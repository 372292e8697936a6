package queue

import "sync/atomic"

// doing is what is done for a delivery at a moment, for the report of a run
// that hangs.
type doing struct{ atomic.Int32 }

const (
	doingFunction int32 = iota
	doingReceived
	doingBackoff
	doingSettle
	doingFinished
)

var doings = [...]string{"function", "hook Received", "WithBackoff", "settle", "hook Finished"}

func (d *doing) String() string { return doings[d.Load()] }
