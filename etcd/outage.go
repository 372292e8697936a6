package etcdlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/outage"
)

// outages logs that blocking calls of one Locker reach no server.
type outages struct {
	*server
	log     *outage.Log
	waiting atomic.Int64 // blocking calls under way
}

// outageCall is one call in the log of outages. It does nothing for a call that
// does not block.
type outageCall struct {
	outages *outages // nil if the call does not block
	call    outage.Call
}

// begin counts a call that blocks, until its end.
func (all *outages) begin() outageCall {
	all.waiting.Add(1)
	return outageCall{all, all.log.Begin()}
}

// end undoes begin.
func (o *outageCall) end() {
	if o.outages != nil {
		o.outages.log.End(&o.call, o.outages.waiting.Add(-1))
	}
}

// pass ends the call's part in an outage while another call asks in its place.
func (o *outageCall) pass() {
	if o.outages != nil {
		o.outages.log.End(&o.call, o.outages.waiting.Load()-1)
	}
}

// await reports whether a request has ended, which closes done, before ctx is
// cancelled. Package clientv3 repeats a request until its limit. So a call that
// blocks asks after a second why no server can be reached.
func (o *outageCall) await(ctx context.Context, done <-chan struct{}) bool {
	var late <-chan time.Time
	if o.outages != nil {
		timer := time.NewTimer(outage.Patience)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-done:
			return true
		case <-ctx.Done():
			return false
		case <-late:
			if why := o.outages.unreachable(); why != nil {
				o.failed(why)
			}
		}
	}
}

// failed notes that an attempt of a call that blocks has found no server that
// it can use. The address is unknown: package clientv3 chooses the member.
func (o *outageCall) failed(why error) {
	switch {
	case o.outages == nil:
	case errors.Is(why, relock.ErrLockAcquiredByOthers), errors.Is(why, errLateCopy), errors.Is(why, errSession):
	default:
		o.outages.log.Failed(&o.call, "", o.outages.waiting.Load(), why)
	}
}

// answered notes that an attempt has found a server that it can use.
func (o *outageCall) answered() {
	if o.outages != nil {
		o.outages.log.Answered(&o.call, func() string { return "" })
	}
}
