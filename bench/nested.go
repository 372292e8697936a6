package main

import (
	"context"
	"time"
)

// nested compares a pair of lock and unlock of a reentrant lock with one inside
// it, of the same owner, and with a pair of a plain lock. Only relock has
// reentrant locks.
var nested = scenario{
	name: "nested", libraries: []string{oursReentrant},
	load:    load{Work: "nest", Processes: 1, Goroutines: 1, Duration: time.Second},
	figures: nestedFigures,
}

const (
	outerPair   = "outer pair"
	nestedPair  = "nested pair"
	nestedShare = "nested by outer"
	byPlain     = "rate by a plain pair's"
)

// pairsInBlock is how many pairs are timed together, so that a noisy moment
// hits all kinds.
const pairsInBlock = 50

// timeNested alternates blocks of plain pairs, of outer ones and of nested
// ones.
func timeNested(l load, lib library) (r report, err error) {
	ctx := context.Background()
	plain := plainLock("plain", lib.(*relockLibrary).client)
	outer, inner := lib.mutex("key"), lib.mutex("key")
	for end := time.Now().Add(l.Duration); time.Now().Before(end) && err == nil; {
		var a, b, c time.Duration
		if c, err = timePairs(ctx, plain); err != nil {
			return r, err
		}
		a, b, err = nestedBlocks(ctx, outer, inner)
		r.Plain, r.Outer, r.Nested = append(r.Plain, c), append(r.Outer, a), append(r.Nested, b)
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
	var outer, inner, share, rate []float64
	for _, r := range o.reports {
		for i := range r.Outer {
			outer = append(outer, r.Outer[i].Seconds()/pairsInBlock)
			inner = append(inner, r.Nested[i].Seconds()/pairsInBlock)
			share = append(share, r.Nested[i].Seconds()/r.Outer[i].Seconds())
			rate = append(rate, r.Plain[i].Seconds()/r.Outer[i].Seconds())
		}
	}
	return figures{}.
		add(outerPair, median(outer)).
		add(nestedPair, median(inner)).
		add(nestedShare, median(share)).
		add(byPlain, median(rate)), nil
}
