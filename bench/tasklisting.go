package main

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/queue"
)

// listing is a queue with a million tasks, 540,000 of them behind their keys,
// all of which are listed. No other library has keys.
var listing = scenario{
	name: "listing", libraries: []string{oursQueue},
	needs: []string{listedAfter, listingScripts, listP99, listMax, readP50, readP99, readMax, overAMilli},
	load:  load{Tasks: 1_000_000}, tasks: measureListing,
}

const (
	listedAfter    = "a million tasks are listed after"
	listingScripts = "scripts of that"
	listP99        = "list script p99"
	listMax        = "list script max"
	readP50        = "read script p50"
	readP99        = "read script p99"
	readMax        = "read script max"
	overAMilli     = "scripts above 1 ms of 100,000"
)

func measureListing(r taskRun) (figures, error) {
	q, err := openRelockQueue(r.srv.address)
	if err != nil {
		return nil, err
	}
	defer q.close() //nolint:errcheck // the calls' errors count
	if _, err := q.enqueueKeyed(r.Tasks, r.Tasks*46/100); err != nil {
		return nil, err
	}
	if err := r.srv.logAllCommands(r.Tasks); err != nil { // more than there are
		return nil, err
	}
	start := time.Now()
	for _, state := range []queue.State{queue.StateReady, queue.StateBehind} {
		for _, err := range q.queue.Tasks(context.Background(), state) {
			if err != nil {
				return nil, err
			}
		}
	}
	took := time.Since(start)
	times, err := r.srv.scriptTimes(r.Tasks, func([]string) bool { return true })
	return listingFigures(took, times[script.TaskList.SHA], times[script.TaskGet.SHA]), err
}

// listingFigures are those of one run, in which these scripts took so long.
func listingFigures(took time.Duration, list, read []float64) figures {
	all, above := append(list, read...), 0
	for _, one := range all {
		if one > time.Millisecond.Seconds() {
			above++
		}
	}
	return figures{}.add(listedAfter, took.Seconds()).add(listingScripts, float64(len(all))).
		add(listP99, percentile(list, 99)).add(listMax, percentile(list, 100)).
		add(readP50, percentile(read, 50)).add(readP99, percentile(read, 99)).add(readMax, percentile(read, 100)).
		add(overAMilli, float64(above)/float64(max(1, len(all)))*100_000)
}
