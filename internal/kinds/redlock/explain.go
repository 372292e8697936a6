package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
)

// explain adds to the final error of a call until when minimum holds keep the
// lock, or whose replicas the nodes are that are replicas. It asks those
// together.
func (a *attempt) explain(err error) error {
	if err == nil || lockspec.ContextEnd(err) != nil || !errors.Is(err, errs.ErrQuorum) {
		return acquire.Kept(err, a.keptUntil())
	}
	l := a.lock
	var reads sync.WaitGroup
	for n := range a.failed {
		v := &a.failed[n]
		if driver.IsReadOnly(v.err) {
			reads.Go(func() { v.err = withRole(a.call.Ctx, l.nodes[v.node], v.err) })
		}
	}
	reads.Wait()
	return l.tooFew(a.failed)
}

// roleLimit is how long a call may ask a node for the text of its error. The
// node has just answered, so only a machine under load takes longer than a
// moment.
const roleLimit = time.Second

// withRole adds to the refusal of a replica whose replica it is. Only that
// shows that nodes of a RedLock may be one server and its copies.
func withRole(ctx context.Context, m *lease.Manager, err error) error {
	limit := driver.Limits{Connect: roleLimit, Answer: roleLimit, End: time.Now().Add(roleLimit)}
	if role := driver.RoleUnlessMaster(ctx, limit, m.Driver); role != "" {
		return fmt.Errorf("%w (it is %s)", err, role)
	}
	return err
}

// keptUntil returns until when minimum holds keep the nodes that the call
// needs, as they answered in its last round. If a holder is in the way, it
// returns the zero time.
func (a *attempt) keptUntil() (until time.Time) {
	if a.last == nil {
		return until
	}
	ends := make([]time.Time, a.last.ours) // these nodes are not kept
	for _, v := range a.last.others {
		if !v.kept.IsZero() {
			ends = append(ends, v.kept)
		}
	}
	if len(ends) < a.lock.need {
		return until
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends[a.lock.need-1]
}
