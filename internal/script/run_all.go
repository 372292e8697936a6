package script

import (
	"context"
	"sync"

	"github.com/relock-go/relock/internal/redis/driver"
)

// RunAll is [Run] for scripts of several keys, each on a separate goroutine, so
// that no server waits for another one. None of them waits for replicas.
//
// A server, or the system, may have no room for a connection more. So the
// scripts that got none are run again one after another, over those that the
// others have returned, until one gets none again.
func RunAll(
	ctx context.Context, d driver.Driver, limit driver.Limits, calls []Call,
) ([]driver.Result, []Indeterminate) {
	results, left := make([]driver.Result, len(calls)), make([]Indeterminate, len(calls))
	var group sync.WaitGroup
	beside := limit
	beside.Beside = len(calls) > 1
	for i, s := range calls {
		group.Go(func() { results[i], left[i] = Run(ctx, d, beside, s, nil) })
	}
	group.Wait()
	for i, s := range calls {
		if !isCrowdedOut(results[i]) || ctx.Err() != nil {
			continue
		}
		o, again := Run(ctx, d, limit, s, nil)
		results[i], left[i] = o, left[i].Merge(again)
		if isCrowdedOut(o) {
			break
		}
	}
	return results, left
}

// isCrowdedOut reports whether there may have been no room for the connection
// of a request. A dial that took too long shows no lack of room.
func isCrowdedOut(o driver.Result) bool {
	return o.Sent.IsZero() && driver.IsNetwork(o.Err) && !o.Unconnected() || driver.IsRefusal(o.Err) || o.Broke()
}
