// Command bench compares relock with other lock libraries for Redis and with bare redigo: the same loads for all, in one run on one machine,
// each on a redis-server of its own, in one or several processes.
//
//	go run . [-runs 3] [-libs "relock,raw redigo,..."] [-out results] [-into ../README.md,...] [scenario ...]
//	go run . -smoke
//
// It prints tables of the medians. -out writes them into a folder as results.md, with results.svg, a plot of the main ones, and results.json,
// all figures; -into puts the main tables between the two marker comments of Markdown files. -smoke runs everything once and for a moment. A
// run fails when a figure is missing or makes no sense; that of a hand-off may be missing, since a moment may see none.
//
// A scenario is a load that all libraries get, a file each: distinct.go,
// onekey.go, busy.go, think.go, handoff.go, nested.go, reentrantkey.go,
// quorum.go, replicated.go. A library is an adapter, a file each: relock.go,
// raw.go, redsync.go, redislock.go, rueidislock.go.
package main
