package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// grant is one hold as a goroutine saw it. Times are in ns, by a clock that all
// processes of a machine share.
type grant struct{ Asked, Got, Gave int64 }

// clock returns the time of day, which is the same in all processes of a
// machine.
func clock() int64 { return time.Now().UnixNano() }

// traceGrants records when each lock was requested, granted and released.
func traceGrants(l load, lib library) (report, error) {
	mutexes, err := l.mutexes(lib)
	if err != nil {
		return report{}, err
	}
	ctx, cancel := l.waiting()
	defer cancel()
	r := report{Grants: make([][]grant, l.Goroutines)}
	end := time.Now().Add(l.Duration)
	var stuck atomic.Int64
	err = inParallel(l.Goroutines, func(i int) error {
		for time.Now().Before(end) {
			g, err := oneGrant(ctx, l, mutexes[i])
			if ctx.Err() != nil {
				stuck.Add(1)
				return nil
			} else if err != nil {
				return err
			}
			r.Grants[i] = append(r.Grants[i], g)
			time.Sleep(l.Think)
		}
		return nil
	})
	r.Stuck = stuck.Load()
	return r, err
}

func oneGrant(ctx context.Context, l load, m mutex) (g grant, err error) {
	g.Asked = clock()
	if err := m.Lock(ctx); err != nil {
		return g, err
	}
	g.Got = clock()
	time.Sleep(l.Hold)
	g.Gave = clock()
	return g, m.Unlock(ctx)
}

// event is a grant and the process that got it.
type event struct {
	grant
	process int
}

// events returns all grants, in the order in which they came.
func events(reports []report) []event {
	var all []event
	for i, r := range reports {
		for _, grants := range r.Grants {
			for _, g := range grants {
				all = append(all, event{g, i})
			}
		}
	}
	slices.SortFunc(all, func(a, b event) int { return int(a.Got - b.Got) })
	return all
}

// exclusive reports whether each grant began after the end of the previous one.
func exclusive(all []event) bool {
	for i := 1; i < len(all); i++ {
		if all[i].Got < all[i-1].Gave {
			return false
		}
	}
	return true
}

// handOffs returns the times between an unlock and the next lock. It counts
// only locks of another process that were requested before the unlock.
func handOffs(all []event) []time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(all); i++ {
		before, after := all[i-1], all[i]
		if before.process != after.process && after.Asked < before.Gave {
			gaps = append(gaps, time.Duration(after.Got-before.Gave))
		}
	}
	return gaps
}
