package script

import (
	"context"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Run sends a script within the limits, and waits for the replicas of confirm,
// if any. It sends the script once more if the connection broke. It returns the
// last result, and what is indeterminate of both sendings.
func Run(
	ctx context.Context, d driver.Driver, limit driver.Limits, s Call, confirm *driver.Ack,
) (driver.Result, Indeterminate) {
	o := RunOnce(ctx, d, limit, s, confirm)
	left := Indeterminate{}.Add(o)
	if o.Broke() && ctx.Err() == nil {
		o = RunOnce(ctx, d, limit, s, confirm)
		left = left.Add(o)
	}
	return o, left.orUnrecognised(o)
}

// RunOnce sends a script once. A refused script was not executed, and is sent
// again in another form, see [Call.Next].
func RunOnce(ctx context.Context, d driver.Driver, limit driver.Limits, s Call, confirm *driver.Ack) driver.Result {
	r := s.request("EVALSHA", s.Script.SHA)
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

// RunBatch runs scripts over a link, and sends refused ones again in another
// form, see [Call.Next]. With confirm, a script has an error if too few
// replicas have it, or if their number is unknown.
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
			o.Resent = o.Resent || outcomes[again[k]].Resent
			outcomes[again[k]] = o
		}
	}
	return outcomes
}
