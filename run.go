package relock

import "context"

// runScript sends a script within the limits, and waits for replicas if confirm
// asks for them. It sends the script once more if the connection broke under
// it. It returns the last result, and what is indeterminate of both.
func runScript(ctx context.Context, d driver, limit limits, s scripted, confirm *confirmation) (outcome, doubt) {
	o := runOnce(ctx, d, limit, s, confirm)
	left := doubt{}.add(o)
	if o.broke() && ctx.Err() == nil {
		o = runOnce(ctx, d, limit, s, confirm)
		left = left.add(o)
	}
	return o, left.orUnread(o)
}

// runOnce sends a script once. A refused one was not executed, and is sent in
// its other forms.
func runOnce(ctx context.Context, d driver, limit limits, s scripted, confirm *confirmation) outcome {
	r := s.bySHA()
	r.confirm, r.granted = confirm, isGrant
	o := d.send(ctx, limit, r)
	for range 2 { // not known, then refused for its keys
		next, ok := s.after(o.err)
		if !ok {
			break
		}
		next.confirm, next.granted = confirm, isGrant
		o = d.send(ctx, limit, next)
	}
	return o
}

// exchange runs scripts over a link: by digest, and otherwise where the server refuses that.
func exchange(l link, limit batchLimit, scripts []scripted, confirm *confirmation) []outcome {
	if len(scripts) == 0 {
		return nil
	}
	requests := make([]request, len(scripts))
	for i, s := range scripts {
		requests[i] = s.bySHA()
	}
	outcomes := pipelineConfirmed(l, limit, requests, confirm)
	var again []int
	requests = requests[:0]
	for i, o := range outcomes {
		if next, ok := scripts[i].after(o.err); ok {
			again, requests = append(again, i), append(requests, next)
		}
	}
	if len(again) > 0 {
		for k, o := range pipelineConfirmed(l, limit, requests, confirm) {
			outcomes[again[k]] = o
		}
	}
	return outcomes
}
