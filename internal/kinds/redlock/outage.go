package redlock

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/driver"
)

// A node that is away keeps no call from its lock while the others are a
// quorum. So only a round without a quorum is an outage, of the nodes that were
// missing. The client of each logs it.

// Clients returns the clients of all nodes.
func (a *attempt) Clients() []*lease.Manager { return a.lock.nodes }

// Life returns a context that is cancelled when too few clients are open.
func (a *attempt) Life() context.Context { return a.life }

// NoteServers notes which nodes were missing in the last round, which has ended
// with err.
func (a *attempt) NoteServers(err error) {
	lacks := errors.Is(err, errs.ErrQuorum)
	switch {
	case a.last == nil:
		return
	case a.outages == nil && !lacks:
		a.call.Outage = outage.Call{}
		return
	case a.outages == nil:
		for _, m := range a.lock.nodes {
			a.outages = append(a.outages, m.Outages.From(a.lock.Manager.Outages, a.call.Outage)) // since the call began
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
			log.Failed(c, a.addressOf(node, why), a.call.Others()+1, why)
		default:
			log.End(c, a.call.Others())
		}
	}
}

// addressOf returns the address of a node at which a request has ended with
// err.
func (a *attempt) addressOf(node int, err error) string {
	m := a.lock.nodes[node]
	return driver.AddressOf(m.Driver, m.RedisKey(a.lock.Key), err)
}

// EndOutages ends the call's part in the outages of its nodes.
func (a *attempt) EndOutages(err error) {
	if err == nil {
		a.NoteServers(nil)
	}
	for node := range a.outages {
		a.lock.nodes[node].Outages.End(&a.outages[node], a.call.Others())
	}
}
