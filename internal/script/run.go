package script

import (
	"context"

	"github.com/relock-go/relock/internal/driver"
)

// Run sends a script within the limits, and waits for replicas if confirm
// asks for them. It sends the script once more if the connection broke under
// it. It returns the last result, and what is indeterminate of both.
func Run(ctx context.Context, d driver.Driver, limit driver.Limits, s Call, confirm *driver.Ack) (driver.Result, Indeterminate) {
	o := RunOnce(ctx, d, limit, s, confirm)
	left := Indeterminate{}.Add(o)
	if o.Broke() && ctx.Err() == nil {
		o = RunOnce(ctx, d, limit, s, confirm)
		left = left.Add(o)
	}
	return o, left.orUnrecognised(o)
}

// RunOnce sends a script once. A refused one was not executed, and is sent in
// its other forms.
func RunOnce(ctx context.Context, d driver.Driver, limit driver.Limits, s Call, confirm *driver.Ack) driver.Result {
	r := s.ByDigest()
	r.Ack, r.Granted = confirm, isGrant
	o := d.Send(ctx, limit, r)
	for range 2 { // not known, then refused for its keys
		next, ok := s.Next(o.Err)
		if !ok {
			break
		}
		next.Ack, next.Granted = confirm, isGrant
		o = d.Send(ctx, limit, next)
	}
	return o
}

// RunBatch runs scripts over a link, and sends refused ones in their other
// forms. If confirm asks for replicas, a script that too few have got, or
// nobody knows how many, has an error.
func RunBatch(l driver.Link, limit driver.BatchLimit, scripts []Call, confirm *driver.Ack) []driver.Result {
	if len(scripts) == 0 {
		return nil
	}
	requests := make([]driver.Request, len(scripts))
	for i, s := range scripts {
		requests[i] = s.ByDigest()
		requests[i].Granted = IsOurs
	}
	outcomes := driver.PipelineAcked(l, limit, requests, confirm)
	var again []int
	requests = requests[:0]
	for i, o := range outcomes {
		if next, ok := scripts[i].Next(o.Err); ok {
			next.Granted = IsOurs
			again, requests = append(again, i), append(requests, next)
		}
	}
	if len(again) > 0 {
		for k, o := range driver.PipelineAcked(l, limit, requests, confirm) {
			outcomes[again[k]] = o
		}
	}
	return outcomes
}
