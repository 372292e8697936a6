package acquire

import (
	"errors"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/driver"
)

// A node that is away keeps no call from its lock while the others are a
// quorum. So only a round without a quorum is an outage, of the nodes that were
// missing. The client of each logs it.

func (a *redAttempt) clients() []*lease.Manager { return a.lock.nodes }

// noteNodes notes which nodes were missing in the last round, which has ended
// with err.
func (a *redAttempt) noteNodes(err error) {
	lacks := errors.Is(err, errs.ErrQuorum)
	switch {
	case a.last == nil:
		return
	case a.outages == nil && !lacks:
		a.call.outage = outage.Call{}
		return
	case a.outages == nil:
		for _, m := range a.lock.nodes {
			a.outages = append(a.outages, m.Outages.From(a.call.client.Outages, a.call.outage)) // since the call began
		}
	}
	missing := map[int]error{}
	for _, v := range a.last.failed {
		missing[v.node] = v.err
	}
	for node, answered := range a.last.answered {
		c, log, why := &a.outages[node], a.lock.nodes[node].Outages, missing[node]
		switch {
		case !answered: // the others have decided
		case why == nil:
			log.Answered(c, func() string { return a.addressOf(node, nil) })
		case lacks:
			log.Failed(c, a.addressOf(node, why), a.call.others()+1, why)
		default:
			log.End(c, a.call.others())
		}
	}
}

// addressOf returns the address of a node at which a request has ended with
// err.
func (a *redAttempt) addressOf(node int, err error) string {
	m := a.lock.nodes[node]
	return driver.AddressOf(m.Driver, m.RedisKey(a.lock.Key), err)
}

// endOutages ends the call's part in the outages of its nodes.
func (a *redAttempt) endOutages(err error) {
	if err == nil {
		a.noteNodes(nil)
	}
	for node := range a.outages {
		a.lock.nodes[node].Outages.End(&a.outages[node], a.call.others())
	}
}
