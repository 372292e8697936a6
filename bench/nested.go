package main

import (
	"context"
	"time"
)

// nested compares a pair of lock and unlock inside another of the same owner
// with the outer one. Only relock has reentrant locks.
var nested = scenario{
	name: "nested", libraries: []string{oursReentrant},
	load:    load{Work: "nest", Processes: 1, Goroutines: 1, Duration: time.Second},
	figures: nestedFigures,
}

const (
	outerPair   = "outer pair"
	nestedPair  = "nested pair"
	nestedShare = "nested by outer"
)

// pairsInBlock is how many pairs are timed together, so that a noisy moment
// hits both kinds.
const pairsInBlock = 50

// timeNested alternates blocks of outer pairs and of nested ones.
func timeNested(l load, lib library) (r report, err error) {
	ctx := context.Background()
	outer, inner := lib.mutex("key"), lib.mutex("key")
	for end := time.Now().Add(l.Ramp); time.Now().Before(end) && err == nil; {
		_, _, err = nestedBlocks(ctx, outer, inner)
	}
	for end := time.Now().Add(l.Duration); time.Now().Before(end) && err == nil; {
		var a, b time.Duration
		a, b, err = nestedBlocks(ctx, outer, inner)
		r.Outer, r.Nested = append(r.Outer, a), append(r.Nested, b)
	}
	return r, err
}

func nestedBlocks(ctx context.Context, outer, inner mutex) (around, inside time.Duration, err error) {
	if around, err = timePairs(ctx, outer); err != nil {
		return 0, 0, err
	}
	if err = outer.Lock(ctx); err != nil {
		return 0, 0, err
	}
	if inside, err = timePairs(ctx, inner); err != nil {
		return 0, 0, err
	}
	return around, inside, outer.Unlock(ctx)
}

func timePairs(ctx context.Context, m mutex) (time.Duration, error) {
	start := time.Now()
	for range pairsInBlock {
		if err := pair(ctx, m); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

func nestedFigures(o outcome) (figures, error) {
	var outer, inner, share []float64
	for _, r := range o.reports {
		for i := range r.Outer {
			outer = append(outer, r.Outer[i].Seconds()/pairsInBlock)
			inner = append(inner, r.Nested[i].Seconds()/pairsInBlock)
			share = append(share, r.Nested[i].Seconds()/r.Outer[i].Seconds())
		}
	}
	return figures{}.
		add(outerPair, median(outer)).
		add(nestedPair, median(inner)).
		add(nestedShare, median(share)), nil
}
