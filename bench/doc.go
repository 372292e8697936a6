// Command bench compares relock with other lock libraries for Redis and with
// bare redigo. Every library gets the same loads, in one run on one machine.
// Each runs on its own redis-server, in one or several processes.
//
//	export GOWORK=off # it is not in the workspace: its peers need Go 1.26
//	go run . [-runs 5] [-run "hand-off|busy"] [-out results]
//		[-into ../docs/internals/measured.md]
//	go run . -queues [-runs 5] [-run killed] [-into ../docs/internals/queue-measured.md]
//	go run . -smoke
//
// It prints tables of the medians, with the least and the most of the runs.
// With -out it writes the tables to results.md in a folder. There it also
// writes a plot of the main ones to results.svg, and the figures of all runs to
// results.json. -into puts the main tables between the two marker comments of a
// Markdown file. -run chooses scenarios, and then it only prints. -queues
// compares relock's task queue with asynq instead. -smoke runs everything once
// and briefly.
//
// A run fails if a figure is missing or makes no sense. The figures of a
// hand-off may be missing, since a short run may see none.
//
// A scenario is a load that all libraries get. counted.go has those that count
// pairs of goroutines of one process, and traced.go those that record each
// grant of several processes. Others have separate files: nested.go,
// quorum.go, readwrite.go, semaphore.go, servers.go, tls.go, and held.go and
// etcd.go, which programs of other modules measure. A library is an adapter.
// Each has its own file: relock.go, raw.go, redsync.go, redislock.go,
// rueidislock.go. aims.go has what the figures should be.
//
// The files of task queues begin with task: taskrates.go, tasklatency.go,
// taskkilled.go, taskmemory.go, taskbacklog.go and tasklisting.go have the
// scenarios.
package main
