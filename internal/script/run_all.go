package script

import (
	"context"

	"github.com/relock-go/relock/internal/driver"
)

// RunAll is [Run] for scripts of several keys, which are sent together. None of
// them waits for replicas.
func RunAll(ctx context.Context, d driver.Driver, limit driver.Limits, calls []Call) ([]driver.Result, []Indeterminate) {
	b := &batch{calls: calls, results: make([]driver.Result, len(calls)), left: make([]Indeterminate, len(calls)), sent: make([]int, len(calls))}
	for i, s := range calls {
		b.add(i, s.ByDigest())
	}
	for len(b.requests) > 0 {
		at, requests := b.at, b.requests
		b.at, b.requests = nil, nil
		for k, o := range d.SendAll(ctx, limit, requests) {
			b.note(at[k], o, ctx.Err() == nil)
		}
	}
	for i, o := range b.results {
		b.left[i] = b.left[i].orUnrecognised(o)
	}
	return b.results, b.left
}

// batch is the state of RunAll. Its slices are indexed by script, except at and
// requests, which are those of the next round.
type batch struct {
	calls   []Call
	results []driver.Result
	left    []Indeterminate
	sent    []int

	at       []int
	requests []driver.Request
}

// maxSent is how often a script is sent: after a broken connection, in full if
// the server does not know it, and with the lock's key only.
const maxSent = 4

func (b *batch) add(i int, r driver.Request) {
	b.at, b.requests = append(b.at, i), append(b.requests, r)
	b.sent[i]++
}

// note keeps a result, and adds what is to be sent again to the next round.
// After a break a script is sent again only once.
func (b *batch) note(i int, o driver.Result, stays bool) {
	b.results[i] = o
	if next, ok := b.calls[i].Next(o.Err); ok && b.sent[i] < maxSent {
		b.add(i, next) // refused: nothing was executed
		return
	}
	again := o.Broke() && stays && !b.left[i].Exists()
	b.left[i] = b.left[i].Add(o)
	if again {
		b.add(i, b.calls[i].ByDigest())
	}
}
