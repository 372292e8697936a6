package main

import (
	"fmt"
	"math"
	"strings"
)

// taskRow is one figure of the task queues, and what relock aims at.
type taskRow struct {
	what             string
	scenario, figure string
	unit             unit
	less             bool // a smaller figure is better
	aim              string
}

var taskRows = []taskRow{
	{what: "enqueue/s, 1 producer", scenario: enqueue1.name, figure: tasksPerSecond, unit: count, aim: "1.0×"},
	{what: "enqueue/s, 64 producers", scenario: enqueue64.name, figure: tasksPerSecond, unit: count, aim: "1.3×"},
	{what: "processed/s, 1 worker, no work", scenario: process1.name, figure: tasksPerSecond, unit: count},
	{what: "processed/s, 2 workers", scenario: process2.name, figure: tasksPerSecond, unit: count},
	{what: "processed/s, 10 workers", scenario: process10.name, figure: tasksPerSecond, unit: count},
	{what: "processed/s, 64 workers, no work", scenario: process64.name, figure: tasksPerSecond, unit: count, aim: "4×"},
	{what: "idle worker: enqueue to start, p50", scenario: idleStart.name, figure: startP50, unit: duration, less: true},
	{what: "the same, p99", scenario: idleStart.name, figure: startP99, unit: duration, less: true, aim: "5 ms"},
	{what: "the same, slowest", scenario: idleStart.name, figure: startMax, unit: duration, less: true},
	{what: "a task due in 200 ms is late by, p50", scenario: delayed.name, figure: startP50, unit: duration, less: true},
	{what: "the same, p99", scenario: delayed.name, figure: startP99, unit: duration, less: true, aim: "20 ms"},
	{what: "the same, slowest", scenario: delayed.name, figure: startMax, unit: duration, less: true},
	{what: "a worker is killed 2 s into a task, lease of 30 s: " +
		"it runs again after", scenario: killed.name, figure: againAfter, unit: duration, less: true, aim: "31.5 s"},
	{
		what: "bytes for a task of 100 bytes", scenario: taskMemory.name,
		figure: bytesPerTask, unit: count, less: true, aim: "0.8 × asynq: 1.25×",
	},
	{what: "enqueued/s in 64s, 1,000 queued over 100 keys", scenario: backlog.name, figure: fewEnqueued, unit: count},
	{what: "the same, a million queued over 100,000 keys", scenario: backlog.name, figure: manyEnqueued, unit: count},
	{what: "by that with 1,000", scenario: backlog.name, figure: enqueueShare, unit: share, aim: "0.8"},
	{what: "processed/s, 1,000 queued over 100 keys", scenario: backlog.name, figure: fewProcessed, unit: count},
	{what: "the same, a million queued over 100,000 keys", scenario: backlog.name, figure: manyProcessed, unit: count},
	{what: "by that with 1,000", scenario: backlog.name, figure: processShare, unit: share, aim: "0.8"},
	{
		what:     "a million queued: script that enqueues 64, p50",
		scenario: backlog.name, figure: enqueueP50, unit: duration, less: true,
	},
	{what: "the same, slowest", scenario: backlog.name, figure: enqueueMax, unit: duration, less: true, aim: "1 ms"},
	{what: "script that receives 64, p50", scenario: backlog.name, figure: receiveP50, unit: duration, less: true},
	{what: "the same, slowest", scenario: backlog.name, figure: receiveMax, unit: duration, less: true, aim: "1 ms"},
	{what: "script that settles 64, p50", scenario: backlog.name, figure: settleP50, unit: duration, less: true},
	{what: "the same, slowest", scenario: backlog.name, figure: settleMax, unit: duration, less: true, aim: "1 ms"},
	{what: "a million queued: all listed after", scenario: listing.name, figure: listedAfter, unit: duration, less: true},
	{what: "by so many scripts", scenario: listing.name, figure: listingScripts, unit: count, less: true},
	{what: "script that lists 64 IDs, p99", scenario: listing.name, figure: listP99, unit: duration, less: true},
	{what: "the same, slowest", scenario: listing.name, figure: listMax, unit: duration, less: true, aim: "1 ms"},
	{what: "script that reads 32 tasks, p50", scenario: listing.name, figure: readP50, unit: duration, less: true},
	{what: "the same, p99", scenario: listing.name, figure: readP99, unit: duration, less: true},
	{what: "the same, slowest", scenario: listing.name, figure: readMax, unit: duration, less: true, aim: "1 ms"},
	{what: "of 100,000 of both, above 1 ms", scenario: listing.name, figure: overAMilli, unit: count, less: true},
}

// taskPage returns the table of the task queues, and the machine on which it
// was taken.
func taskPage(r results) string {
	var w strings.Builder
	fmt.Fprintf(&w, "Medians of %d alternating runs, and their range, on one machine: %s.\n%s.\n%s.\n\n",
		r.Runs, r.Machine, strings.Join(r.Machine.Libraries, ", "), r.Load)
	fmt.Fprintf(&w, "| what | %s | %s | how many times better | aim |\n|---|---|---|---|---|\n", oursQueue, asynqName)
	for _, row := range taskRows {
		row.write(&w, r)
	}
	return w.String()
}

// write writes a row, unless nothing has measured it.
func (t taskRow) write(w *strings.Builder, r results) {
	own, ok := r.of(t.scenario, oursQueue, t.figure)
	if !ok {
		return
	}
	ratio := ""
	if other, ok := r.of(t.scenario, asynqName, t.figure); ok && !math.IsNaN(advantage(own, other, t.less)) {
		ratio = times(advantage(own, other, t.less))
	}
	ours, _ := r.cell(t.scenario, oursQueue, t.figure, t.unit)
	theirs, _ := r.cell(t.scenario, asynqName, t.figure, t.unit)
	fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", t.what, ours, theirs, ratio, t.aim)
}
