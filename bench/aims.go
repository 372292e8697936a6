package main

import (
	"fmt"
	"math"
	"strings"
)

// aim is what a figure of ours should be, compared with the best of others.
type aim struct {
	what                      string
	scenario, library, figure string
	others                    []string // if none, the figure is a ratio
	less                      bool     // a smaller figure is better
	by                        float64  // the ratio that is aimed at
}

// realPeers are the libraries among the peers.
var realPeers = peers[1:]

// remade are those of them that make a lock anew for each turn.
var remade = []string{redsyncAnew, bsmRedislock, rueidisOneKey, rueidisDefault}

// aims lists what bench compares with a goal.
var aims = []aim{
	{"1 goroutine, pairs/s", distinct1.name, ours, perSecond, []string{rawRedigo}, false, 1},
	{"1 goroutine, pairs/s", distinct1.name, ours, perSecond, realPeers, false, 0.95},
	{"a reentrant pair's rate by a plain pair's", nested.name, oursReentrant, byPlain, nil, false, 0.85},
	{"64 goroutines, a key each, pairs/s", distinct64.name, ours, perSecond, []string{redsyncRedigo}, false, 1.8},
	{"64 goroutines, a key each, pairs/s", distinct64.name, ours, perSecond, []string{rueidisOneKey}, false, 1.4},
	{"256", distinct256.name, ours, perSecond, []string{redsyncRedigo}, false, 2.7},
	{"256", distinct256.name, ours, perSecond, []string{rueidisOneKey}, false, 1.6},
	{"256, made anew", distinct256.name, oursAnew, perSecond, []string{redsyncAnew}, false, 2.7},
	{"256, made anew", distinct256.name, oursAnew, perSecond, []string{rueidisOneKey}, false, 1.6},
	{"allocations a pair, made anew", distinct1.name, oursAnew, allocations, nil, true, 14},
	{"1,024", distinct1024.name, ours, perSecond, []string{redsyncRedigo}, false, 3.3},
	{"1,024", distinct1024.name, ours, perSecond, []string{rueidisOneKey}, false, 1.6},
	{"hand-off, median", handOff.name, ours, handOffTime, []string{rueidisOneKey}, true, 0.75},
	{"hand-off, median, fair", handOff.name, oursFair, handOffTime, []string{rueidisOneKey}, true, 0.75},
	{"4 processes × 4, hold 1 ms, fair: wait p99", busy.name, oursFair, waitP99, realPeers, true, 0.15},
	{"the same with 5 ms between two locks, fair: time in use", think.name, oursFair, inUse, realPeers, false, 1.15},
	{"one key, 256 goroutines of a process, no hold, locks/s", oneKey.name, ours, perSecond, realPeers, false, 40},
	{"the same, made anew", oneKey.name, oursAnew, perSecond, remade, false, 40},
	{"etcd, 1 goroutine, pairs/s", onEtcd.name, oursEtcd, etcdPairs1, []string{etcdMutex}, false, 1},
	{"etcd, 64 goroutines, pairs/s", onEtcd.name, oursEtcd, etcdPairs64, []string{etcdMutex}, false, 1},
}

// ratios returns the ratio to the best of the others in each run.
func (a aim) ratios(r results) (all []float64) {
	runs := r.Figures[a.scenario]
	for i, own := range runs[a.library] {
		best := math.NaN()
		for _, other := range a.others {
			if i < len(runs[other]) {
				best = a.better(best, runs[other][i].of(a.figure))
			}
		}
		if len(a.others) == 0 {
			best = 1
		}
		if ratio := own.of(a.figure) / best; !math.IsNaN(ratio) {
			all = append(all, ratio)
		}
	}
	return all
}

// better returns the better one of two figures, of which each may be missing.
func (a aim) better(x, y float64) float64 {
	switch {
	case math.IsNaN(x):
		return y
	case math.IsNaN(y):
		return x
	case a.less:
		return min(x, y)
	}
	return max(x, y)
}

// writeAims writes a table of the aims that the runs had figures for.
func writeAims(w *strings.Builder, r results) {
	var rows strings.Builder
	for _, a := range aims {
		if all := a.ratios(r); len(all) > 0 {
			a.write(&rows, all)
		}
	}
	if rows.Len() > 0 {
		fmt.Fprintf(w, "**Aims:** relock's figure by that of others, run by run.\n\n"+
			"| | compared with | aim | seen |\n|---|---|---|---|\n%s\n", rows.String())
	}
}

func (a aim) write(w *strings.Builder, ratios []float64) {
	with, aimed := "the best of all others", "at least"
	switch len(a.others) {
	case 0:
		with = ""
	case 1:
		with = a.others[0]
	}
	if a.less {
		aimed = "at most"
	}
	fmt.Fprintf(w, "| %s | %s | %s %s | %s |\n", a.what, with, aimed, share(a.by), spread(share, ratios))
}
