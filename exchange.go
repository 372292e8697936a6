package relock

import "github.com/gomodule/redigo/redis"

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

// pipelineConfirmed asks behind the requests how many replicas have them.
func pipelineConfirmed(l link, limit batchLimit, requests []request, confirm *confirmation) []outcome {
	if confirm == nil {
		return l.pipeline(limit, requests)
	}
	outcomes := l.pipeline(limit, append(requests, confirm.request()))
	last := len(outcomes) - 1
	acks, err := redis.Int64(outcomes[last].reply, outcomes[last].err)
	for i := range outcomes {
		outcomes[i].acks, outcomes[i].unacked = acks, err
	}
	return outcomes[:last]
}
